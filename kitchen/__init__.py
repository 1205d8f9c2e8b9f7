"""The machinery of Compile Kitchen.

The measuring half (``machine``, ``snippet``, ``child``, ``runner``, ``results``, ``bundle``, ``measure``)
imports the standard library only, so that it runs on a machine that has nothing but Python and torch; torch
itself is imported in child processes alone. The page half (``page`` and what it calls) may use any library.
"""

__version__ = "0.1.0"
