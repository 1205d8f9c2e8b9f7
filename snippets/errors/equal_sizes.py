# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# limit_s = 120
# value = 25
# ///
"""Two sizes that happen to be equal at the first call become one symbol; when they part, another graph is needed.

What the back end makes of a graph is not the point, so it only counts: ``graphs`` that were compiled, ``calls`` that
were made, and ``compiled_calls``, those that a graph answered. Results are compared with the same code uncompiled.

Columns: step (problem or fix), call (what was run), happened (error; wrong: other results than uncompiled; not
compiled: some calls were answered by no graph; recompiled: more graphs than the work needs; or fine), raised_at (when
it showed), error (the class), message (its text, or what Dynamo logs with TORCH_LOGS=recompiles), evidence (the
counts), status and note ("not measured" where torch.compile is turned off).
"""

from __future__ import annotations

import contextlib
import logging
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Row = dict[str, str]


def scores(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Rows of x against rows of w."""
    return torch.tanh(x) @ w.T


def pairs(sizes: Sequence[tuple[int, int]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Queries and documents, as many of each as a request has."""
    torch.manual_seed(0)
    return [(torch.randn(queries, 4), torch.randn(documents, 4)) for queries, documents in sizes]


SIZES = [(8, 8), (8, 6), (5, 7), (3, 3)]


def problem(backend: Any) -> list[torch.Tensor]:
    """The first request has as many queries as documents."""
    compiled = torch.compile(scores, backend=backend, dynamic=True)
    return [compiled(x, w) for x, w in pairs(SIZES)]


def fix_first_call(backend: Any) -> list[torch.Tensor]:
    """Make the first call, the warm-up, with sizes that are all different."""
    compiled = torch.compile(scores, backend=backend, dynamic=True)
    compiled(torch.randn(9, 4), torch.randn(11, 4))
    return [compiled(x, w) for x, w in pairs(SIZES)]


def fix_mark(backend: Any) -> list[torch.Tensor]:
    """Name the sizes that change: each that is marked has a symbol of its own."""
    compiled = torch.compile(scores, backend=backend)
    results = []
    for x, w in pairs(SIZES):
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(w, 0)
        results.append(compiled(x, w))
    return results


def fix_setting(backend: Any) -> list[torch.Tensor]:
    """Give every size a symbol of its own, in the whole process."""
    with torch.fx.experimental._config.patch(use_duck_shape=False):
        return problem(backend)


# ---------------------------------------------------------------- counting and comparing

NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to count (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class Graphs:
    """A back end that counts the graphs it is given and the calls that reach them, and runs them as they are."""

    def __init__(self) -> None:
        self.made = self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Count one graph, and each of its calls."""
        self.made += 1

        def run(*values: Any) -> Any:
            self.runs += 1
            return graph(*values)

        return run


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what Dynamo logs with TORCH_LOGS=recompiles, instead of printing it."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    torch._logging.set_logs(recompiles=True)
    before = {logging.getLogger(name): logging.getLogger(name).handlers for name in ("torch", "torch._dynamo")}
    for logger in before:
        logger.handlers = [handler]
    try:
        yield said
    finally:
        for logger, handlers in before.items():
            logger.handlers = handlers
        torch._logging.set_logs()


def first_lines(text: str) -> str:
    """Return the lines that matter, without paths, addresses and stack traces."""
    text = re.split(r"\n\s*(?:- )?User stack|\nTo log all", text)[0]
    text = re.sub(r" in \S+\.py:\d+| \(\S+\.py:\d+[^)]*\)|\s+# [^\n]*?\.py:\d+ in \S+", "", text)
    text = re.sub(r"0x[0-9a-f]+|\b\d{9,}\b", "…", text)
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return text if len(text) <= 500 else f"{text[:499]}…"


def look(
    step: str,
    call: str,
    attempt: Callable[[Graphs], list[torch.Tensor]],
    like: Callable[[Graphs], list[torch.Tensor]],
    enough: int = 1,
) -> Row:
    """Make the calls of ``attempt`` and return what happened. ``enough``: how many graphs the work needs.

    Its results are compared with those of ``like``, uncompiled.
    """
    with torch.compiler.set_stance("force_eager"):
        wanted = like(Graphs())
    torch._dynamo.reset()
    graphs = Graphs()
    got: list[torch.Tensor] | None = None
    row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    with listening() as said:
        try:
            got = attempt(graphs)
        except Exception as error:
            row |= {"happened": "error", "error": type(error).__name__, "message": first_lines(str(error))}
    counted = f"graphs={graphs.made}, compiled_calls={graphs.runs}"
    row |= {"evidence": counted, "status": "ok", "note": ""}
    if got is not None:
        row["evidence"] = f"calls={len(got)}, {counted}"
        same = len(got) == len(wanted) and all(map(close, got, wanted))
        if not same:
            row["happened"] = "wrong"
        elif graphs.runs < len(got):
            row["happened"] = "not compiled"
        elif graphs.made > enough:
            row["happened"] = "recompiled"
    if row["happened"] != "fine":
        row["raised_at"] = "later call" if graphs.runs else "first call"
        reasons = [text for text in said if text.startswith("Recompiling") or "_dynamo hit config" in text]
        row["message"] = first_lines("\n".join([row["message"], *reasons[-1:]]))
    if not graphs.made:
        row |= {"status": "not measured", "note": NOT_COMPILED}
    torch._dynamo.reset()
    return row


def close(result: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two results are the same up to rounding."""
    return result.shape == wanted.shape and torch.allclose(result.double(), wanted.double())


def run() -> list[Row]:
    """Provoke the problem, then show the fixes (columns: module docstring)."""
    torch.manual_seed(0)
    return [
        look("problem", "torch.compile(scores, dynamic=True)(x, w)", problem, problem),
        look(
            "fix", "torch.compile(scores, dynamic=True)(torch.randn(9, 4), torch.randn(11, 4))", fix_first_call, problem
        ),
        look("fix", "mark_dynamic(x, 0); mark_dynamic(w, 0); torch.compile(scores)(x, w)", fix_mark, problem),
        look("fix", "torch.fx.experimental._config.use_duck_shape = False", fix_setting, problem),
    ]


def main() -> None:
    """Run and print."""
    for row in run():
        print(f"{row['step']:8} {row['happened']:12} {row['evidence']}\n         {row['call']}")
        if row["message"]:
            print(textwrap.indent(row["message"], " " * 9))


if __name__ == "__main__":
    main()
