# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 200
# value = 52
# ///
"""How many graphs a stream of calls costs: decoding, training, images, jagged ids, research code, notebook cells.

Each row is one stream of calls in one setting. A back end of our own takes the graphs, counts them, and runs them as
they are, so nothing depends on a C++ compiler or a GPU: how often Dynamo captures and hands over a graph is the same
for every back end, and with ``inductor`` each of these graphs would be compiled. CPU tensors, small.

    decode        a key-value cache that grows by one token a call, against one that has its full length from the start:
                  a buffer of the module, written in place, as decoders do it. Each result is compared with
                  attention to the tokens so far, without compiling
    training      epochs whose last batch is shorter
    images        pictures of many sizes
    ids           a recommender's lists of ids, of another length in every batch
    research      a Python number that changes at every step: an argument, or an attribute of the module
    notebook      a cell that is run again

Columns
    scenario            which of these
    stream, setting     the calls, and what was done about them
    status, note        "ok"; "failed" with the error in note, "wrong" where a result of decode is not what it should
                        be, "not measured" where nothing is captured here
    device              "cpu"
    calls               how many calls were made
    graphs              graphs that Dynamo captured and handed over: with inductor, so many compiles
    uncompiled          calls that ran without any of them, because the limit of graphs was reached
                        (torch._dynamo.config.recompile_limit, 8 by default)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Row = dict[str, Any]
#: A stream: gets a way to compile, makes its calls one by one, and yields after each.
Stream = Callable[["Compile", int], Iterator[None]]

HEADS, WIDTH = 2, 8
TOLERANCE = 1e-5
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to count (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class WrongResult(Exception):
    """A compiled step gave another result than the same step without compiling."""


class Compile:
    """torch.compile with a back end that counts the graphs it is given, and the calls that run one of them."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.graphs = 0
        self.runs = 0

    def backend(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Take one graph."""
        self.graphs += 1

        def run(*values: Any) -> Any:
            self.runs += 1
            return graph.forward(*values)

        return run

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a function or module."""
        return torch.compile(function, backend=self.backend, **self.how)


# ---------------------------------------------------------------- decode


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Attention of one token, (1, heads, 1, width), to the tokens in the cache, (1, heads, tokens, width)."""
    return torch.softmax(query @ keys.transpose(-1, -2), -1) @ values


def grow(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One decode step on a cache that is one token longer afterwards."""
    keys, values = torch.cat([keys, query], 2), torch.cat([values, query], 2)
    return attend(query, keys, values), keys, values


def check(found: torch.Tensor, tokens: torch.Tensor) -> None:
    """Raise WrongResult unless ``found`` is the attention of the last token to all ``tokens``, without compiling."""
    wanted = attend(tokens[:, :, -1:], tokens, tokens)
    error = float((found - wanted).abs().max() / wanted.abs().max())
    if not error <= TOLERANCE:  # also true for NaN
        raise WrongResult(f"relative error {error:.2g} against the step without compiling is above {TOLERANCE:g}")


def sentence(tokens: int) -> torch.Tensor:
    """Return so many tokens, (1, heads, tokens, width)."""
    return torch.randn(1, HEADS, tokens, WIDTH, generator=torch.Generator().manual_seed(0))


def growing_cache(compile_: Compile, calls: int) -> Iterator[None]:
    """Append every token to the cache: another shape at every call."""
    step = compile_(grow)
    # A prompt of four tokens: sizes 0 and 1 are special to Dynamo.
    tokens = sentence(4 + calls)
    keys = values = tokens[:, :, :4]
    for end in range(5, 5 + calls):
        found, keys, values = step(tokens[:, :, end - 1 : end], keys, values)
        check(found, tokens[:, :, :end])
        yield


class FixedCache(nn.Module):
    """One decode step on a cache of full length, a buffer that is written in place; its addresses never change."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, HEADS, tokens, WIDTH))
        self.register_buffer("values", torch.zeros(1, HEADS, tokens, WIDTH))

    def forward(self, query: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Take one token at position ``at``, shape (1,); what lies beyond it is masked."""
        self.keys.index_copy_(2, at, query)
        self.values.index_copy_(2, at, query)
        hidden = torch.arange(self.keys.shape[2]) > at
        scores = (query @ self.keys.transpose(-1, -2)).masked_fill(hidden, float("-inf"))
        return torch.softmax(scores, -1) @ self.values


@torch.no_grad()
def fixed_cache(compile_: Compile, calls: int) -> Iterator[None]:
    """Write every token into a cache that has its full length; the position is a tensor."""
    model = FixedCache(calls)
    step, tokens, place = compile_(model), sentence(calls), model.keys.data_ptr()
    for at in range(calls):
        found = step(tokens[:, :, at : at + 1], torch.tensor([at]))
        check(found, tokens[:, :, : at + 1])
        if not torch.equal(model.keys[:, :, : at + 1], tokens[:, :, : at + 1]) or model.keys.data_ptr() != place:
            raise WrongResult("the cache was not written in place")
        yield


# ---------------------------------------------------------------- training, images, ids


def epochs(compile_: Compile, calls: int, last: int) -> Iterator[None]:
    """Forward and backward in epochs of four batches, the last of them with ``last`` rows (0: left out)."""
    model = compile_(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)))
    sizes = [32, 32, 32, last or 32]
    for call in range(calls):
        model(torch.ones(sizes[call % 4], WIDTH)).sum().backward()
        yield


def short_last_batch(compile_: Compile, calls: int) -> Iterator[None]:
    """The data does not divide by the batch size."""
    yield from epochs(compile_, calls, 7)


def dropped_last_batch(compile_: Compile, calls: int) -> Iterator[None]:
    """DataLoader(drop_last=True)."""
    yield from epochs(compile_, calls, 0)


def pictures(compile_: Compile, calls: int, fit: Callable[[int], int]) -> Iterator[None]:
    """Convolve a picture of another size at every call; ``fit`` says which size it is padded to."""
    model = compile_(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)))
    for call in range(calls):
        pixels = 16 + 2 * call
        pad = fit(pixels) - pixels
        with torch.no_grad():
            model(F.pad(torch.ones(1, 3, pixels, pixels), (0, pad, 0, pad)))
        yield


def as_they_come(compile_: Compile, calls: int) -> Iterator[None]:
    """Every picture in its own size."""
    yield from pictures(compile_, calls, lambda pixels: pixels)


def in_buckets(compile_: Compile, calls: int) -> Iterator[None]:
    """Every picture padded to the next multiple of 16 pixels."""
    yield from pictures(compile_, calls, lambda pixels: -(-pixels // 16) * 16)


def one_size(compile_: Compile, calls: int) -> Iterator[None]:
    """Every picture padded to the largest size."""
    yield from pictures(compile_, calls, lambda pixels: 16 + 2 * calls)


def jagged(compile_: Compile, calls: int, length: Callable[[int], int]) -> Iterator[None]:
    """Look up and sum lists of ids; ``length`` says how many ids a batch has in all."""
    table = nn.EmbeddingBag(100, WIDTH, mode="sum")
    look_up = compile_(lambda ids, offsets: torch.relu(table(ids, offsets)))
    offsets = torch.arange(0, 32, 4)
    for call in range(calls):
        look_up(torch.ones(length(call), dtype=torch.long), offsets)
        yield


def ids_as_they_come(compile_: Compile, calls: int) -> Iterator[None]:
    """As many ids as the users of this batch happen to have."""
    yield from jagged(compile_, calls, lambda call: 32 + 3 * call)


def padded_ids(compile_: Compile, calls: int) -> Iterator[None]:
    """The ids of every batch padded to one length."""
    yield from jagged(compile_, calls, lambda _: 32 + 3 * calls)


# ---------------------------------------------------------------- research, notebook


def number_argument(compile_: Compile, calls: int) -> Iterator[None]:
    """A Python float that changes at every step, as an argument."""
    scale = compile_(lambda x, by: torch.relu(x) * by)
    for call in range(calls):
        scale(torch.ones(WIDTH), 0.5 + call / 10)
        yield


class Counts(nn.Module):
    """A module that counts its calls in a Python int, and uses the count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        self.calls += 1
        return torch.relu(x) / self.calls


class CountsInTensor(nn.Module):
    """The same with the count in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        self.calls += 1
        return torch.relu(x) / self.calls


def number_attribute(compile_: Compile, calls: int) -> Iterator[None]:
    """A Python int that changes at every step, as an attribute of the module."""
    model = compile_(Counts())
    for _ in range(calls):
        model(torch.ones(WIDTH))
        yield


def tensor_attribute(compile_: Compile, calls: int) -> Iterator[None]:
    """The same number in a tensor."""
    model = compile_(CountsInTensor())
    for _ in range(calls):
        model(torch.ones(WIDTH))
        yield


CELL = """
def model(x):
    return torch.relu(x) * 2
fast = compile_(model)
"""


def cell_again(compile_: Compile, calls: int) -> Iterator[None]:
    """Run the cell that defines and compiles the model before every call, unchanged."""
    for _ in range(calls):
        # As a notebook does: the text of the cell is compiled by Python anew, so the function is a new one.
        scope: dict[str, Any] = {"torch": torch, "compile_": compile_}
        exec(compile(CELL, "<cell>", "exec"), scope)
        scope["fast"](torch.ones(WIDTH))
        yield


def call_again(compile_: Compile, calls: int) -> Iterator[None]:
    """Run only the cell that calls the model."""
    scope: dict[str, Any] = {"torch": torch, "compile_": compile_}
    exec(compile(CELL, "<cell>", "exec"), scope)
    for _ in range(calls):
        scope["fast"](torch.ones(WIDTH))
        yield


#: Scenario, stream, setting as code, the calls, and the keywords of torch.compile.
STREAMS: tuple[tuple[str, str, str, Stream, Row], ...] = (
    ("decode", "growing", "torch.compile(step)", growing_cache, {}),
    ("decode", "growing", "dynamic=False", growing_cache, {"dynamic": False}),
    ("decode", "fixed", "self.keys.index_copy_(2, at, token)", fixed_cache, {}),
    ("training", "short last batch", "torch.compile(model)", short_last_batch, {}),
    ("training", "short last batch", "dynamic=False", short_last_batch, {"dynamic": False}),
    ("training", "no last batch", "DataLoader(drop_last=True)", dropped_last_batch, {}),
    ("images", "many sizes", "torch.compile(model)", as_they_come, {}),
    ("images", "many sizes", "dynamic=False", as_they_come, {"dynamic": False}),
    ("images", "buckets", "dynamic=False", in_buckets, {"dynamic": False}),
    ("images", "one size", "torch.compile(model)", one_size, {}),
    ("ids", "many lengths", "torch.compile(model)", ids_as_they_come, {}),
    ("ids", "many lengths", "dynamic=False", ids_as_they_come, {"dynamic": False}),
    ("ids", "one length", "torch.compile(model)", padded_ids, {}),
    ("research", "number as argument", "f(x, 0.5), f(x, 0.6) …", number_argument, {}),
    ("research", "number as attribute", "self.calls += 1", number_attribute, {}),
    ("research", "number in a tensor", "self.calls += 1", tensor_attribute, {}),
    ("notebook", "cell run again", "def model …; fast = torch.compile(model)", cell_again, {}),
    ("notebook", "call run again", "fast(x)", call_again, {}),
)


def count(scenario: str, stream: str, setting: str, calls_of: Stream, how: Row, calls: int) -> Row:
    """Return the row of one stream (columns: module docstring)."""
    row: Row = {"scenario": scenario, "stream": stream, "setting": setting, "status": "ok", "note": None}
    row |= {"device": "cpu", "calls": 0, "graphs": None, "uncompiled": None}
    torch._dynamo.reset()
    compile_ = Compile(**how)
    uncompiled = 0
    try:
        before = 0
        for _ in calls_of(compile_, calls):
            row["calls"] += 1
            uncompiled += compile_.runs == before
            before = compile_.runs
    except WrongResult as error:
        return row | {"status": "wrong", "note": str(error)}
    except Exception as error:
        return row | {"status": "failed", "note": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    if compile_.graphs == 0:
        return row | {"status": "not measured", "note": NOT_COMPILED}
    return row | {"graphs": compile_.graphs, "uncompiled": uncompiled}


def run(*, calls: int = 24) -> list[Row]:
    """Make ``calls`` calls of each stream and return their rows (columns: module docstring)."""
    torch.manual_seed(0)
    rows = [count(*stream, calls) for stream in STREAMS]
    torch._dynamo.reset()
    return rows


def main() -> None:
    """Count and print."""
    for row in run():
        counted = f"{row['graphs']} graphs, {row['uncompiled']} uncompiled" if row["status"] == "ok" else row["note"]
        print(f"{row['scenario']:10} {row['stream']:22} {row['setting']:42} {row['calls']:3} calls: {counted}")


if __name__ == "__main__":
    main()
