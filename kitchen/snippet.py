"""A snippet on disk: its name, header, needs, time limit and hash.

The header is PEP 723 inline script metadata; ours is the ``[tool.kitchen]`` table in it::

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["torch>=2.11"]
    #
    # [tool.kitchen]
    # needs = ["compiler"]
    # limit_s = 240
    # value = 100
    # ///

Source: https://packaging.python.org/en/latest/specifications/inline-script-metadata/
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

SNIPPETS = Path(os.environ.get("KITCHEN_SNIPPETS", Path(__file__).resolve().parent.parent / "snippets"))

#: What a snippet may need beyond Python and its dependencies, and what to do where it is missing.
NEEDS = {
    "cuda": "a CUDA GPU that this torch can use",
    "compiler": "a C++ compiler (install g++, or point CXX at one)",
    "triton": "Triton (it comes with the CUDA builds of torch)",
    "redis-server": "redis-server on the PATH (Debian: apt-get install redis-server)",
}

NAME = re.compile(r"[a-z0-9_]+(?:/[a-z0-9_]+)+")
#: The dependency forms that the child can check without a third-party library.
DEPENDENCY = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:>=\s*(?P<minimum>[0-9]+(?:\.[0-9]+)*))?")

_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$")


class SnippetError(ValueError):
    """A snippet that does not keep the contract; the message names the file and what to do."""


@dataclass(frozen=True)
class Snippet:
    """One file below ``snippets/``.

    ``limit_s`` is in seconds; ``value`` orders a budgeted run (higher runs earlier); ``sha256`` is the hash of
    the file's bytes with line ends as ``\\n``, so that a checkout on Windows has the same hash.
    """

    name: str
    path: Path
    sha256: str
    needs: tuple[str, ...]
    limit_s: float
    value: int
    dependencies: tuple[str, ...]
    docstring: str


def digest(data: bytes) -> str:
    """The SHA-256 of a snippet's text, line ends normalised."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def load(name: str, root: Path | None = None) -> Snippet:
    """Reads one snippet by its name (``"overview/four_backends"``).

    Raises SnippetError where there is no such file or its header is not as the contract says.
    """
    root = root or SNIPPETS
    path = root / f"{name}.py"
    if not NAME.fullmatch(name):
        raise SnippetError(f"{name!r} is not a snippet name: write chapter/name in lower case, digits and underscores")
    if not path.is_file():
        raise SnippetError(f"no snippet {name!r}: there is no file {path}")
    return _parse(name, path)


def load_all(root: Path | None = None) -> dict[str, Snippet]:
    """All snippets below ``root`` by name, most valuable first (ties by name)."""
    root = root or SNIPPETS
    if not root.is_dir():
        raise SnippetError(f"no snippets folder {root}")
    found = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if "__pycache__" in relative.parts or path.name == "__init__.py":
            continue
        name = relative.with_suffix("").as_posix()
        if not NAME.fullmatch(name):
            raise SnippetError(f"{path}: a snippet's path is chapter/name.py in lower case, digits and underscores")
        found.append(_parse(name, path))
    return {s.name: s for s in sorted(found, key=lambda s: (-s.value, s.name))}


def _parse(name: str, path: Path) -> Snippet:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
        tree = ast.parse(text)
    except (UnicodeDecodeError, SyntaxError) as error:
        raise SnippetError(f"{path}: not valid Python: {error}") from error
    blocks = list(_BLOCK.finditer(text.replace("\r\n", "\n")))
    if len(blocks) != 1:
        raise SnippetError(f"{path}: wants exactly one '# /// script' header (PEP 723), has {len(blocks)}")
    content = "".join(
        line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].group("content").splitlines(keepends=True)
    )
    try:
        header = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise SnippetError(f"{path}: the script header is not valid TOML: {error}") from error

    dependencies = header.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
        raise SnippetError(f"{path}: dependencies: wants a list of strings, has {dependencies!r}")
    for dependency in dependencies:
        if not DEPENDENCY.fullmatch(dependency.strip()):
            raise SnippetError(
                f"{path}: dependencies: {dependency!r} is not 'name' or 'name>=version', "
                "the forms that a machine without pip can check"
            )
    table = header.get("tool", {}).get("kitchen")
    if not isinstance(table, dict):
        raise SnippetError(f"{path}: the script header has no [tool.kitchen] table (needs, limit_s, value)")
    unknown = sorted(set(table) - {"needs", "limit_s", "value"})
    if unknown:
        raise SnippetError(f"{path}: [tool.kitchen] has unknown keys {unknown}; known: needs, limit_s, value")
    needs = table.get("needs", [])
    if not isinstance(needs, list) or any(need not in NEEDS for need in needs):
        raise SnippetError(f"{path}: [tool.kitchen] needs = {needs!r}; known needs: {', '.join(NEEDS)}")
    limit_s = table.get("limit_s")
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not 0 < limit_s <= 3600:
        raise SnippetError(f"{path}: [tool.kitchen] limit_s = {limit_s!r}: wants seconds, above 0, at most 3600")
    value = table.get("value", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SnippetError(f"{path}: [tool.kitchen] value = {value!r}: wants a whole number")
    docstring = ast.get_docstring(tree)
    if not docstring:
        raise SnippetError(f"{path}: has no module docstring (what it shows, the columns, the source)")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
        raise SnippetError(f"{path}: has no function run()")
    return Snippet(
        name=name,
        path=path,
        sha256=digest(data),
        needs=tuple(needs),
        limit_s=float(limit_s),
        value=value,
        dependencies=tuple(d.strip() for d in dependencies),
        docstring=docstring,
    )
