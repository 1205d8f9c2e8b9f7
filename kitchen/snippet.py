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

Two more keys, both optional: ``on_request = true`` keeps a long one out of a plain ``make measure``; it is measured
when ``--only`` names it. ``measured_by = "measuring/compare_backends"`` makes the file a *subject*: it needs no run()
of its own, its record is what run() of the named snippet returns for ``model=<this file>`` and the keywords in
``arguments``. Neither file imports the other; the record's hash covers both.

``files = {tool = "measuring/compare_backends", models = ["models/mlp", "models/lstm"]}`` hands the paths of other
snippets to run(), as keywords: a snippet that loads what it compares instead of importing it. The hash covers them too.

Source: https://packaging.python.org/en/latest/specifications/inline-script-metadata/
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

SNIPPETS = Path(os.environ.get("KITCHEN_SNIPPETS", Path(__file__).resolve().parent.parent / "snippets"))

#: What a snippet may need beyond Python and its dependencies, and what to do where it is missing.
NEEDS = {
    "cuda": "a CUDA GPU that this torch can use",
    "compiler": "a C++ compiler (install g++, or point CXX at one)",
    "triton": "Triton (it comes with the CUDA builds of torch)",
    "redis-server": "redis-server on the PATH (Debian: apt-get install redis-server)",
}

KEYS = ("needs", "limit_s", "value", "on_request", "measured_by", "arguments", "files")
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
    the file's bytes with line ends as ``\\n``, so that a checkout on Windows has the same hash; for a subject, of
    the file, of what measures it and of the ``others`` that it is given. ``runs`` is the file whose run() is called,
    with ``arguments``.
    """

    name: str
    path: Path
    sha256: str
    needs: tuple[str, ...]
    limit_s: float
    value: int
    dependencies: tuple[str, ...]
    docstring: str
    on_request: bool = False
    measured_by: str | None = None
    runs: Path | None = None
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    others: tuple[Path, ...] = ()

    def digest_now(self) -> str:
        """The hash of the files as they are now; OSError where one is gone."""
        return _digest_of(self.path, self.runs or self.path, *self.others)


def _digest_of(*paths: Path) -> str:
    return digest(*(path.read_bytes() for path in dict.fromkeys(paths)))


def digest(*texts: bytes) -> str:
    """The SHA-256 of the texts of a snippet and of what its record rests on, line ends normalised."""
    return hashlib.sha256(b"\0".join(text.replace(b"\r\n", b"\n") for text in texts)).hexdigest()


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
    return _parse(name, path, root)


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
        found.append(_parse(name, path, root))
    return {s.name: s for s in sorted(found, key=lambda s: (-s.value, s.name))}


def _parse(name: str, path: Path, root: Path) -> Snippet:
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
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise SnippetError(f"{path}: [tool.kitchen] has unknown keys {unknown}; known: {', '.join(KEYS)}")
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
    on_request = table.get("on_request", False)
    if not isinstance(on_request, bool):
        raise SnippetError(f"{path}: [tool.kitchen] on_request = {on_request!r}: wants true or false")
    runs, arguments = _measurer(name, path, root, table)
    if runs is path and not _has_run(tree):
        raise SnippetError(f"{path}: has no function run()")
    files = _files(name, path, root, table)
    given = {
        key: str(value) if isinstance(value, Path) else [str(one) for one in value] for key, value in files.items()
    }
    others = tuple(one for value in files.values() for one in ([value] if isinstance(value, Path) else value))
    return Snippet(
        name=name,
        path=path,
        sha256=_digest_of(path, runs, *others),
        needs=tuple(needs),
        limit_s=float(limit_s),
        value=value,
        dependencies=tuple(d.strip() for d in dependencies),
        docstring=docstring,
        on_request=on_request,
        measured_by=table.get("measured_by"),
        runs=runs,
        arguments=arguments | given,
        others=others,
    )


def _measurer(name: str, path: Path, root: Path, table: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The file whose run() makes the record of ``path``, and the keywords for it."""
    by, arguments = table.get("measured_by"), table.get("arguments", {})
    if not isinstance(arguments, dict) or (arguments and by is None):
        raise SnippetError(f"{path}: [tool.kitchen] arguments: wants a table of keywords, beside measured_by")
    if by is None:
        return path, {}
    if not isinstance(by, str) or not NAME.fullmatch(by) or by == name:
        raise SnippetError(f"{path}: [tool.kitchen] measured_by = {by!r}: wants the name of another snippet")
    runs = root / f"{by}.py"
    if not runs.is_file():
        raise SnippetError(f"{path}: [tool.kitchen] measured_by = {by!r}: there is no file {runs}")
    state = runs.stat()
    if not _file_has_run(runs, state.st_mtime_ns, state.st_size):
        raise SnippetError(f"{path}: [tool.kitchen] measured_by = {by!r}: {runs} has no function run()")
    return runs, {"model": str(path.resolve()), **arguments}


def _files(name: str, path: Path, root: Path, table: dict[str, Any]) -> dict[str, Path | list[Path]]:
    """The files of other snippets that run() is given, by keyword."""

    def found(other: Any) -> Path:
        if not isinstance(other, str) or not NAME.fullmatch(other) or other == name:
            raise SnippetError(f"{path}: [tool.kitchen] files: {other!r} is not the name of another snippet")
        file = root / f"{other}.py"
        if not file.is_file():
            raise SnippetError(f"{path}: [tool.kitchen] files: {other!r}: there is no file {file}")
        return file.resolve()

    files = table.get("files", {})
    if not isinstance(files, dict) or (files and "measured_by" in table):
        raise SnippetError(f"{path}: [tool.kitchen] files: wants a table of keywords, and no measured_by beside it")
    return {key: [found(one) for one in v] if isinstance(v, list) else found(v) for key, v in files.items()}


@lru_cache(maxsize=64)
def _file_has_run(path: Path, _mtime_ns: int, _size: int) -> bool:
    """Parsed once for each state of the file: a page that shows all subjects asks a hundred times."""
    try:
        return _has_run(ast.parse(path.read_bytes()))
    except SyntaxError as error:
        raise SnippetError(f"{path}: not valid Python: {error}") from error


def _has_run(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)
