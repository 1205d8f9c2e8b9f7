"""A page function called by text, and its Markdown as HTML: for notebooks, where fences do not run."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import markdown as python_markdown

from kitchen.context import PageError, State, did_you_mean

#: What the output of the page functions needs, where no site has said which extensions it uses.
EXTENSIONS: list[Any] = ["attr_list", "md_in_html", "pymdownx.superfences", "pymdownx.blocks.tab"]
CONFIG: dict[str, Any] = {"pymdownx.blocks.tab": {"alternate_style": True}}

_numbers = itertools.count(1)


def parse_value(text: str) -> Any:
    """``3`` → 3, ``["a","b"]`` → a list, ``a,b`` → a list, ``kind:step,n:3`` → a dict, else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    if re.fullmatch(r"\w+:[^,]*(,\w+:[^,]*)*", text):
        return {key: parse_value(value) for key, value in (part.split(":", 1) for part in text.split(","))}
    return [parse_value(part) for part in text.split(",")] if "," in text else text


def run(spec: str, functions: Mapping[str, Callable[..., str]]) -> str:
    """Runs ``table overview/python_demo columns=backend,step_ms``. PageError where it can't be read."""
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise PageError(f"cannot read the call {spec!r}: {error}") from error
    if not words:
        raise PageError("an empty call; write for example: table overview/python_demo")
    known = {name: function for name, function in functions.items() if not name.startswith("_")}
    name, *rest = words
    if name not in known:
        raise PageError(f"unknown page function {name!r}{did_you_mean(name, known)}")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for word in rest:
        key, sign, value = word.partition("=")
        if sign and key.isidentifier():
            named[key] = parse_value(value)
        else:
            positional.append(word)
    if isinstance(named.get("columns"), str):
        named["columns"] = [named["columns"]]
    try:
        inspect.signature(known[name]).bind(*positional, **named)
    except TypeError as error:
        raise PageError(f"{name}: {error}") from error
    return known[name](*positional, **named)


def render_html(text: str, state: State) -> str:
    """Markdown of a page function to HTML, with the site's extensions where a build has set them up."""
    extensions, config = EXTENSIONS, CONFIG
    # markdown-exec keeps the site's extensions for the same purpose; without a build there are none.
    module = sys.modules.get("markdown_exec")
    saved = getattr(module, "markdown_config", None)
    if saved is not None and saved.exts:
        extensions, config = list(saved.exts), dict(saved.exts_config or {})
    converted = python_markdown.Markdown(extensions=extensions, extension_configs=config).convert(text)
    # Each conversion counts its tabs from one: without a prefix, two of them on a page are one radio group.
    prefix = f"ck{next(_numbers)}-"
    return re.sub(r'((?:id|for|name)=")(__tabbed_)', rf"\1{prefix}\2", converted)
