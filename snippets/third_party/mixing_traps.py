# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 40
# ///
"""One back end for the encoder, another for the decoder: the ways to write it, and how such a mix is lost.

A small model of two parts, each with code of its own. The back ends *tap*: they count the graphs that they get and run
them as they are, so a row proves which back end saw what, where the result alone would look right in any case. Nothing
is timed. The rows of kind "boundary" use Inductor itself; those with OpenVINO run in a process of their own, for that
package changes a setting of TorchDynamo for all back ends, and are "unavailable" where it is not installed.

Columns
    kind               "way": how to mix; "lost": where a part loses its back end; "state": checkpoints, copies, access;
                       "hook"; "boundary": what a boundary costs, and what crosses it
    case, written      what is tried, and the lines that matter
    outcome            what came of it, from the counts: "each its own", "encoder only", "decoder only", "outer only",
                       "outer and decoder", "nothing compiled", "in part"; or, where that is the question, "loads",
                       "silently not loaded", "works", "hook runs", "hook ignored", "crosses", "changed for all",
                       "unchanged", "kept", "silently overwritten"; "raises"
    encoder_graphs, decoder_graphs, outer_graphs
                       graphs that each back end got; None where another back end was used
    kernels, guards    boundary: kernels that Inductor defined, guards that are checked at each call; else None
    gradients          boundary: "equal" to those without compiling, "lost" (None for the encoder), "wrong"; else None
    detail             a value that shows it: a key of the state dict, counts, settings
    right              whether the output equals that of the model without compiling; None without an output
    raised_at, error, message
                       where an error came, its name, its first line
    executed           OpenVINO: calls that reached its runtime in the first step; else None
    package, package_version   of the rows that need one
    status, note       "ok" (also for an error that was caught: it is the finding), "failed" or "unavailable" with the
                       reason in note
    device, threads    always "cpu"; CPU threads of torch
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.metadata
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Row = dict[str, Any]

WIDTH, BATCH = 8, 3
TOLERANCE = 1e-5
PACKAGE = "openvino"
#: Where a CPU has bfloat16, OpenVINO computes in it unless told otherwise.
FULL_PRECISION: Row = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
NEEDS_OPENVINO = "this row needs OpenVINO: pip install 'openvino>=2026.4'"
COUNTS = ("encoder_graphs", "decoder_graphs", "outer_graphs")
FOUND = (
    "outcome", *COUNTS, "kernels", "guards", "gradients", "detail", "right", "raised_at", "error", "message",
    "executed", "package", "package_version",
)  # fmt: skip


# ---------------------------------------------------------------- the model and the tapping back end


class Encoder(nn.Module):
    """A linear layer and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.linear(x).relu()


class Decoder(nn.Module):
    """A linear layer and tanh; ``step`` does the same under another name, as a decoder's loop would call it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.linear(x).tanh()

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.linear(x).tanh()


class Model(nn.Module):
    """Encoder, then decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.decoder(self.encoder(x))


class Tap:
    """A back end that counts the graphs that it gets, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Count a graph."""
        self.graphs += 1
        return graph.forward

    def __deepcopy__(self, memo: Any) -> Tap:
        """A copied model keeps this counter."""
        return self


class Bench:
    """What a case works with: a fresh model, its input, a back end for each part and one for an outer compile."""

    def __init__(self) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.model = Model().eval()
        self.x = torch.randn(BATCH, WIDTH)
        self.encoder, self.decoder, self.outer = Tap(), Tap(), Tap()
        #: Where an error would come from now.
        self.at = "torch.compile()"
        #: Columns that the case sets itself.
        self.found: Row = {}

    def mix_in_place(self) -> None:
        """Give each part its back end, in place."""
        self.model.encoder.compile(backend=self.encoder)
        self.model.decoder.compile(backend=self.decoder)

    def mix_wrapped(self) -> None:
        """Put a compiled wrapper into the place of each part."""
        self.model.encoder = torch.compile(self.model.encoder, backend=self.encoder)
        self.model.decoder = torch.compile(self.model.decoder, backend=self.decoder)

    def call(self, function: Callable[..., Any] | None = None) -> torch.Tensor:
        """Call the model (or another function) for the first time."""
        self.at = "first call"
        # Not "function or self.model": a compiled module asks the model for its length.
        result: torch.Tensor = (self.model if function is None else function)(self.x)
        return result


Case = Callable[[Bench], torch.Tensor | None]


# ---------------------------------------------------------------- ways to mix


def in_place(bench: Bench) -> torch.Tensor:
    """Compile each part in place."""
    model = bench.model
    model.encoder.compile(backend=bench.encoder)
    model.decoder.compile(backend=bench.decoder)
    bench.found["detail"] = next(iter(model.state_dict()))
    return bench.call()


def wrapped(bench: Bench) -> torch.Tensor:
    """Put torch.compile around each part."""
    model = bench.model
    model.encoder = torch.compile(model.encoder, backend=bench.encoder)
    model.decoder = torch.compile(model.decoder, backend=bench.decoder)
    bench.found["detail"] = next(iter(model.state_dict()))
    return bench.call()


def one_part(bench: Bench) -> torch.Tensor:
    """Compile the encoder only."""
    bench.model.encoder.compile(backend=bench.encoder)
    return bench.call()


def method(bench: Bench) -> torch.Tensor:
    """Compile the method that the loop calls."""
    model = bench.model
    model.encoder.compile(backend=bench.encoder)
    model.decoder.step = torch.compile(model.decoder.step, backend=bench.decoder)
    return bench.call(lambda x: model.decoder.step(model.encoder(x)))


def disabled_module(bench: Bench) -> torch.Tensor:
    """Keep the decoder out of an outer compile, so that its own back end gets it."""
    model = bench.model
    model.decoder.compile(backend=bench.decoder)
    model.decoder = torch.compiler.disable(model.decoder)
    bench.found["detail"] = list(model.state_dict())[-2]
    return bench.call(torch.compile(model, backend=bench.outer))


class Handing(Model):
    """Calls the decoder through a method that the outer compile leaves alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.decode(self.encoder(x))

    @torch.compiler.disable
    def decode(self, y: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.decoder(y)


def disabled_method(bench: Bench) -> torch.Tensor:
    """The same by a method around the call."""
    bench.model.__class__ = Handing
    bench.model.decoder.compile(backend=bench.decoder)
    return bench.call(torch.compile(bench.model, backend=bench.outer))


class Annotated(Model):
    """Marks the decoder for Inductor inside one graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        y = self.encoder(x)
        with torch.fx.traceback.annotate({"compile_with_inductor": {}}):
            return self.decoder(y)


def region(bench: Bench) -> torch.Tensor:
    """Capture one graph, and have Inductor compile only the region that is marked."""
    from torch._dynamo.backends.common import aot_autograd
    from torch.fx.passes.regional_inductor import regional_inductor

    bench.model.__class__ = Annotated
    compiler = aot_autograd(fw_compiler=regional_inductor, bw_compiler=regional_inductor)

    def back_end(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        bench.outer.graphs += 1
        return compiler(graph, inputs)

    bench.at = "first call"
    result, codes = generated(torch.compile(bench.model, backend=back_end), bench.x)
    text = "\n".join(codes)
    bench.found["kernels"] = count_kernels(text)
    only = "tanh" in text and "relu" not in text
    bench.found["outcome"] = "decoder only" if only else "outer only"
    return result


# ---------------------------------------------------------------- how a part loses its back end


def outer_compile(bench: Bench) -> torch.Tensor:
    """An outer torch.compile around parts compiled in place."""
    bench.mix_in_place()
    return bench.call(torch.compile(bench.model, backend=bench.outer))


def outer_over_wrapped(bench: Bench) -> torch.Tensor:
    """An outer torch.compile around wrapped parts."""
    bench.mix_wrapped()
    return bench.call(torch.compile(bench.model, backend=bench.outer))


def outer_in_place(bench: Bench) -> torch.Tensor:
    """The whole compiled in place as well."""
    bench.mix_in_place()
    bench.model.compile(backend=bench.outer)
    return bench.call()


class Broken(Model):
    """Breaks the graph between the parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        y = self.encoder(x)
        torch._dynamo.graph_break()
        return self.decoder(y)


def graph_break(bench: Bench) -> torch.Tensor:
    """A graph break does not hand over to the inner back end."""
    bench.model.__class__ = Broken
    return outer_compile(bench)


def disabled_forward(bench: Bench) -> torch.Tensor:
    """``disable`` on the method inside the compiled part leaves the part to nobody."""
    model = bench.model
    model.decoder.compile(backend=bench.decoder)
    model.decoder.forward = torch.compiler.disable(model.decoder.forward)
    return bench.call(torch.compile(model, backend=bench.outer))


def fullgraph(bench: Bench) -> torch.Tensor:
    """One graph asked for, and a part kept out of it."""
    model = bench.model
    model.decoder = torch.compiler.disable(model.decoder)
    return bench.call(torch.compile(model, backend=bench.outer, fullgraph=True))


class RegionDecoder(Decoder):
    """A decoder marked as a nested region."""

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.linear(x).tanh()


def nested_region(bench: Bench) -> torch.Tensor:
    """A nested region says what is compiled once, not by whom."""
    bench.model.decoder.__class__ = RegionDecoder
    bench.model.decoder.compile(backend=bench.decoder)
    return bench.call(torch.compile(bench.model, backend=bench.outer))


def stance_eager(bench: Bench) -> torch.Tensor:
    """A stance holds for every part."""
    bench.mix_in_place()
    with torch.compiler.set_stance("force_eager"):
        return bench.call()


def stance_backend(bench: Bench) -> torch.Tensor:
    """A forced back end takes all parts, each as a graph of its own."""
    bench.mix_in_place()
    with torch.compiler.set_stance("default", force_backend=bench.outer):
        return bench.call()


def other_method(bench: Bench) -> torch.Tensor:
    """``compile()`` is for calls of the module, not for its other methods."""
    model = bench.model
    bench.mix_in_place()
    return bench.call(lambda x: model.decoder.step(model.encoder(x)))


def sequential_in_place(bench: Bench) -> torch.Tensor:
    """nn.Sequential in place: each part with code of its own is a graph, and a built-in layer is none."""
    return sequential(bench, wrap=False)


def sequential_wrapped(bench: Bench) -> torch.Tensor:
    """nn.Sequential wrapped: one graph."""
    return sequential(bench, wrap=True)


def sequential(bench: Bench, *, wrap: bool) -> torch.Tensor:
    """Compile a Sequential of two parts with code of their own and a built-in layer."""
    parts = nn.Sequential(bench.model.encoder, bench.model.decoder, nn.Identity())
    call: Callable[..., Any] = parts
    if wrap:
        call = torch.compile(parts, backend=bench.encoder)
    else:
        parts.compile(backend=bench.encoder)
    result = bench.call(call)
    got = bench.encoder.graphs
    bench.found |= {"outcome": "works" if got == 1 else "in part", "detail": f"{got} graph" + "s" * (got != 1)}
    return result


def many_back_ends(bench: Bench) -> torch.Tensor:
    """Ten blocks of one class, a back end each: the limit counts back ends too."""
    blocks = nn.ModuleList(Encoder() for _ in range(10))
    taps = [Tap() for _ in blocks]
    for block, tap in zip(blocks, taps, strict=True):
        block.compile(backend=tap)
    bench.at = "first call"
    y = bench.x
    for block in blocks:
        y = block(y)
    got = sum(tap.graphs for tap in taps)
    bench.encoder.graphs = got
    bench.found |= {"outcome": "works" if got == len(taps) else "in part", "detail": f"{got} of {len(taps)} compiled"}
    return bench.model(bench.x)


def twice_in_place(bench: Bench) -> torch.Tensor:
    """The last ``compile()`` counts."""
    bench.model.encoder.compile(backend=bench.outer)
    bench.model.encoder.compile(backend=bench.encoder)
    return bench.call()


def twice_wrapped(bench: Bench) -> torch.Tensor:
    """torch.compile around what is compiled already gives a function, and a function is no submodule."""
    part = torch.compile(bench.model.encoder, backend=bench.outer)
    bench.at = "assignment"
    bench.model.encoder = torch.compile(part, backend=bench.encoder)
    return bench.call()


def copied_in_place(bench: Bench) -> torch.Tensor:
    """A copy of a model whose parts are compiled in place is not compiled."""
    bench.mix_in_place()
    return bench.call(copy.deepcopy(bench.model))


def copied_wrapped(bench: Bench) -> torch.Tensor:
    """A copy of wrapped parts is compiled."""
    bench.mix_wrapped()
    return bench.call(copy.deepcopy(bench.model))


def saved(model: nn.Module) -> Any:
    """Return a model that went through torch.save."""
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def graphs_of(function: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, int]:
    """Call a function and return its result, and how many graphs were captured."""
    from torch._dynamo.utils import counters

    before = counters["stats"]["unique_graphs"]
    result = function()
    return result, counters["stats"]["unique_graphs"] - before


def saved_in_place(bench: Bench) -> torch.Tensor:
    """A whole model saved and loaded: what was compiled in place is not any more."""
    bench.model.encoder.compile(backend="eager")
    return loaded_model(bench)


def saved_wrapped(bench: Bench) -> torch.Tensor:
    """A whole model saved and loaded: a wrapper comes back as one."""
    bench.model.encoder = torch.compile(bench.model.encoder, backend="eager")
    return loaded_model(bench)


def loaded_model(bench: Bench) -> torch.Tensor:
    """Save, load and call; a back end by name, for a counting one would not survive in a file."""
    bench.at = "torch.save()"
    again = saved(bench.model)
    bench.at = "first call"
    result, got = graphs_of(lambda: again(bench.x))
    bench.found |= {**dict.fromkeys(COUNTS), "encoder_graphs": got}
    bench.found["outcome"] = "encoder only" if got else "nothing compiled"
    return result


# ---------------------------------------------------------------- checkpoints and access


def load(bench: Bench, model: nn.Module, checkpoint: Row, *, strict: bool = True) -> torch.Tensor:
    """Load a checkpoint, and tell whether the encoder's weights arrived."""
    wanted = next(value for key, value in checkpoint.items() if key.endswith("linear.weight"))
    bench.at = "load_state_dict()"
    model.load_state_dict(checkpoint, strict=strict)
    arrived = torch.equal(next(model.parameters()), wanted)
    bench.found["outcome"] = "loads" if arrived else "silently not loaded"
    bench.found |= dict.fromkeys(COUNTS)
    with torch.compiler.set_stance("force_eager"):
        return model(bench.x)


def before_into_wrapped(bench: Bench) -> torch.Tensor:
    """A checkpoint of the plain model, loaded into one with a wrapped part."""
    other = Model().eval()
    other.encoder = torch.compile(other.encoder, backend=bench.encoder)
    return load(bench, other, bench.model.state_dict())


def wrapped_into_plain(bench: Bench) -> torch.Tensor:
    """A checkpoint of a model with a wrapped part, loaded into the plain one."""
    bench.model.encoder = torch.compile(bench.model.encoder, backend=bench.encoder)
    return load(bench, Model().eval(), bench.model.state_dict())


def not_strict(bench: Bench) -> torch.Tensor:
    """The same with strict=False: no error, and no weights either."""
    bench.model.encoder = torch.compile(bench.model.encoder, backend=bench.encoder)
    return load(bench, Model().eval(), bench.model.state_dict(), strict=False)


def stripped(bench: Bench) -> torch.Tensor:
    """The same with the prefix taken out of the keys."""
    bench.model.encoder = torch.compile(bench.model.encoder, backend=bench.encoder)
    plain = {key.replace("_orig_mod.", ""): value for key, value in bench.model.state_dict().items()}
    return load(bench, Model().eval(), plain)


def in_place_both_ways(bench: Bench) -> torch.Tensor:
    """In place the keys are those of the plain model, in either direction."""
    plain, compiled = copy.deepcopy(bench.model.state_dict()), Model().eval()
    compiled.encoder.compile(backend=bench.encoder)
    load(bench, compiled, plain)
    return load(bench, Model().eval(), compiled.state_dict())


def subscript(bench: Bench) -> None:
    """A wrapped Sequential can't be indexed."""
    part: Any = torch.compile(nn.Sequential(bench.model.encoder), backend=bench.encoder)
    bench.at = "access"
    part[0]


def subscript_in_place(bench: Bench) -> None:
    """One compiled in place can; so can ``_orig_mod``."""
    part = nn.Sequential(bench.model.encoder)
    part.compile(backend=bench.encoder)
    bench.at = "access"
    part[0]
    wrapper: Any = torch.compile(part, backend=bench.encoder)
    wrapper._orig_mod[0]
    bench.found |= {"outcome": "works", **dict.fromkeys(COUNTS)}


def truth_value(bench: Bench) -> None:
    """Asking a wrapper whether it is there asks the module for its length."""
    part = torch.compile(bench.model.encoder, backend=bench.encoder)
    bench.at = "access"
    bool(part)


# ---------------------------------------------------------------- hooks


def hook_case(bench: Bench, place: Callable[[Model], nn.Module], *, compiled: Callable[[], Callable[..., Any]]) -> Any:
    """Compile and call, then register a hook at ``place``, call twice more, and say whether it ran."""
    runs: list[int] = []
    call = compiled()
    result = bench.call(call)
    place(bench.model).register_forward_hook(lambda module, inputs, output: runs.append(1))
    call(bench.x)
    call(bench.x)
    bench.found |= {"outcome": "hook runs" if len(runs) == 2 else "hook ignored", "detail": f"{len(runs)} of 2 calls"}
    return result


def hook_first(bench: Bench) -> torch.Tensor:
    """A hook inside a part, registered before the part is called for the first time."""
    runs: list[int] = []
    bench.model.encoder.linear.register_forward_hook(lambda module, inputs, output: runs.append(1))
    bench.mix_in_place()
    result = bench.call()
    runs.clear()
    bench.call()
    bench.call()
    bench.found |= {"outcome": "hook runs" if len(runs) == 2 else "hook ignored", "detail": f"{len(runs)} of 2 calls"}
    return result


def hook_on_part(bench: Bench) -> Any:
    """A hook on the part itself, registered later."""
    bench.mix_in_place()
    return hook_case(bench, lambda model: model.encoder, compiled=lambda: bench.model)


def hook_inside(bench: Bench) -> Any:
    """A hook on a layer inside the part, registered later."""
    bench.mix_in_place()
    return hook_case(bench, lambda model: model.encoder.linear, compiled=lambda: bench.model)


def hook_under_outer(bench: Bench) -> Any:
    """A hook on the part, registered later, under an outer compile."""
    return hook_case(
        bench, lambda model: model.encoder, compiled=lambda: torch.compile(bench.model, backend=bench.outer)
    )


# ---------------------------------------------------------------- what crosses a boundary, and what it costs


class Norm(nn.Module):
    """Layer norm and GELU: work that fuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return F.gelu(F.layer_norm(x, x.shape[-1:]))


class Scale(nn.Module):
    """Scale, shift, tanh: more of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return (x * 1.5 + 0.5).tanh()


def count_kernels(code: str) -> int:
    """Return how many kernels the generated code defines."""
    return len(re.findall(r"\basync_compile\.(?:cpp_pybinding|cpp|triton)\(", code))


def generated(function: Callable[..., Any], x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """Call a compiled function and return its result, and the code that Inductor wrote for it."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    with config.patch({"force_disable_caches": True}):
        result, codes = run_and_get_code(function, x)
    return result, codes


def pointwise(bench: Bench, *, apart: bool) -> torch.Tensor:
    """Compile two pointwise parts with Inductor, in one or apart; count kernels and guards."""
    bench.model.encoder, bench.model.decoder = Norm(), Scale()
    guards: list[int] = []

    def note_guards(entries: Sequence[Any]) -> list[bool]:
        guards.append(len(entries))
        return [True] * len(entries)

    def options() -> Row:
        # torch.compile takes this entry out of the dictionary that it is given: each call needs one of its own.
        return {"guard_filter_fn": note_guards}

    call: Callable[..., Any] = bench.model
    if apart:
        bench.model.encoder.compile(options=options())
        bench.model.decoder.compile(options=options())
    else:
        call = torch.compile(bench.model, options=options())
    bench.at = "first call"
    (result, codes), got = graphs_and_code(call, bench.x)
    bench.found |= {**dict.fromkeys(COUNTS), "kernels": count_kernels("\n".join(codes)), "guards": sum(guards)}
    bench.found |= {"outcome": "works", "detail": f"{got} graphs" if got != 1 else "1 graph"}
    return result


def graphs_and_code(call: Callable[..., Any], x: torch.Tensor) -> tuple[tuple[torch.Tensor, list[str]], int]:
    """Return result and code of a call, and the number of graphs."""
    from torch._dynamo.utils import counters

    before = counters["stats"]["unique_graphs"]
    answer = generated(call, x)
    return answer, counters["stats"]["unique_graphs"] - before


def one_compile(bench: Bench) -> torch.Tensor:
    """Two pointwise parts under one compile."""
    return pointwise(bench, apart=False)


def two_compiles(bench: Bench) -> torch.Tensor:
    """The same parts, each compiled by itself."""
    return pointwise(bench, apart=True)


def compare_gradients(bench: Bench) -> torch.Tensor:
    """Go backward through the mix and compare all gradients with those of the plain model."""
    model, plain = bench.model, copy.deepcopy(bench.model)
    with torch.enable_grad():
        x, x_plain = (bench.x.clone().requires_grad_() for _ in range(2))
        bench.at = "first call"
        result = model(x)
        bench.at = "backward"
        result.square().sum().backward()
        with torch.compiler.set_stance("force_eager"):
            Model.forward(plain, x_plain).square().sum().backward()
    pairs = [(x.grad, x_plain.grad)]
    pairs += [(ours.grad, theirs.grad) for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True)]
    lost = [ours is None for ours, theirs in pairs if theirs is not None]
    if any(lost):
        bench.found["gradients"] = "lost"
        bench.found["detail"] = f"None: {sum(lost)} of {len(lost)}"
    else:
        close = all(
            torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE) for a, b in pairs if a is not None and b is not None
        )
        bench.found["gradients"] = "equal" if close else "wrong"
    return result.detach()


def gradients(bench: Bench) -> torch.Tensor:
    """Train a mix of aot_eager and Inductor."""
    bench.model.encoder.compile(backend="aot_eager")
    bench.model.decoder.compile(backend="inductor")
    result = compare_gradients(bench)
    crosses = bench.found["gradients"] == "equal"
    bench.found |= {"outcome": "crosses" if crosses else "in part", **dict.fromkeys(COUNTS)}
    return result


@contextlib.contextmanager
def noting_settings() -> Iterator[list[Row]]:
    """Note the settings with which Inductor is called for each graph."""
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
    original, seen, inside = compile_fx.compile_fx, list[Row](), list[bool]()

    def noting(*arguments: Any, **settings: Any) -> Any:
        if not inside:  # with settings of its own it calls itself once more
            seen.append(dict(settings.get("config_patches") or {}))
        inside.append(True)
        try:
            return original(*arguments, **settings)
        finally:
            inside.pop()

    compile_fx.compile_fx = noting
    try:
        yield seen
    finally:
        compile_fx.compile_fx = original


def modes(bench: Bench) -> torch.Tensor:
    """A mode for one part, none for the other."""
    bench.model.encoder.compile(mode="max-autotune-no-cudagraphs")
    bench.model.decoder.compile()
    with noting_settings() as seen:
        result = bench.call()
    chosen = [settings.get("max_autotune", False) for settings in seen]
    bench.found |= {"outcome": "each its own" if chosen == [True, False] else "in part", **dict.fromkeys(COUNTS)}
    bench.found["detail"] = "max_autotune: " + ", ".join(map(str, chosen))
    return result


def dynamic_decoder(bench: Bench) -> torch.Tensor:
    """Sizes that change: as symbols in the decoder only."""
    bench.model.encoder.compile(backend=bench.encoder, dynamic=False)
    bench.model.decoder.compile(backend=bench.decoder, dynamic=True)
    bench.at = "first call"
    sizes = (2, 3, 4, 5)
    for size in sizes:
        bench.model(torch.randn(size, WIDTH))
    bench.found["detail"] = f"{len(sizes)} sizes"
    return bench.model(torch.cat([bench.x, bench.x[:1]]))[:BATCH]


# ---------------------------------------------------------------- with OpenVINO


def count_executions() -> Callable[[], int]:
    """Count the calls that reach OpenVINO's runtime; returns a function that tells how many."""
    execute: Any = importlib.import_module("openvino.frontend.pytorch.torchdynamo.execute")
    original, calls = execute.openvino_execute, list[int]()

    def counting(*arguments: Any, **settings: Any) -> Any:
        calls.append(1)
        return original(*arguments, **settings)

    execute.openvino_execute = counting
    return lambda: len(calls)


def setting_for_all(bench: Bench) -> torch.Tensor:
    """Loading one back end changes a setting of Dynamo, for the other part too."""
    name = "inline_inbuilt_nn_modules"
    before = getattr(torch._dynamo.config, name, None)
    bench.model.encoder.compile(backend="openvino", options=FULL_PRECISION)
    bench.model.decoder.compile(backend=bench.decoder)
    bench.at = "first call"
    executed = count_executions()
    result = bench.call()
    after = getattr(torch._dynamo.config, name, None)
    bench.found |= {"encoder_graphs": None, "outcome": "unchanged" if before == after else "changed for all"}
    bench.found |= {"detail": f"{name}: {before} → {after}", "executed": executed()}
    return result


def encoder_without_gradient(bench: Bench) -> torch.Tensor:
    """An encoder whose back end gives no gradient, below a decoder that trains: nothing complains."""
    executed = count_executions()
    bench.model.encoder.compile(backend="openvino", options=FULL_PRECISION)
    bench.model.decoder.compile(backend="inductor")
    result = compare_gradients(bench)
    crosses = bench.found["gradients"] == "equal"
    bench.found |= {"outcome": "crosses" if crosses else "decoder only", **dict.fromkeys(COUNTS)}
    bench.found["executed"] = executed()
    return result


def earlier_output(bench: Bench) -> torch.Tensor:
    """Keep a part's output, call the part again, and look at the first output once more."""
    executed = count_executions()
    bench.model.encoder.compile(backend="openvino", options=FULL_PRECISION)
    kept = bench.call(bench.model.encoder)
    before = kept.clone()
    bench.model.encoder(-bench.x)
    bench.found |= {"outcome": "kept" if torch.equal(kept, before) else "silently overwritten", **dict.fromkeys(COUNTS)}
    bench.found["executed"] = executed() // 2
    return bench.model.decoder(kept)


# ---------------------------------------------------------------- the cases

A, B, C = 'backend="a"', 'backend="b"', 'backend="c"'
PARTS = f"m.encoder.compile({A}); m.decoder.compile({B})"
WRAP = f"m.encoder = torch.compile(m.encoder, {A})"
#: Kind and case: what does it, and how it is written.
CASES: dict[tuple[str, str], tuple[Case, str]] = {
    ("way", "in place"): (in_place, PARTS),
    ("way", "wrapped"): (wrapped, f"{WRAP}; m.decoder = torch.compile(m.decoder, {B})"),
    ("way", "one part"): (one_part, f"m.encoder.compile({A})"),
    ("way", "a method"): (method, f"m.decoder.step = torch.compile(m.decoder.step, {B})"),
    ("way", "part kept out of an outer compile"): (
        disabled_module,
        f"m.decoder.compile({B}); m.decoder = torch.compiler.disable(m.decoder); torch.compile(m, {C})",
    ),
    ("way", "call kept out of an outer compile"): (
        disabled_method,
        f"@torch.compiler.disable def decode(self, y): return self.decoder(y); torch.compile(m, {C})",
    ),
    ("way", "region of one graph"): (
        region,
        'with torch.fx.traceback.annotate({"compile_with_inductor": {}}): y = self.decoder(y)',
    ),
    ("lost", "outer compile"): (outer_compile, f"{PARTS}; torch.compile(m, {C})"),
    ("lost", "outer compile, wrapped parts"): (outer_over_wrapped, f"{WRAP}; torch.compile(m, {C})"),
    ("lost", "outer compile in place"): (outer_in_place, f"{PARTS}; m.compile({C})"),
    ("lost", "graph break between the parts"): (graph_break, f"torch._dynamo.graph_break(); torch.compile(m, {C})"),
    ("lost", "disabled inside the part"): (
        disabled_forward,
        "m.decoder.forward = torch.compiler.disable(m.decoder.forward)",
    ),
    ("lost", "disabled and fullgraph"): (
        fullgraph,
        f"m.decoder = torch.compiler.disable(m.decoder); torch.compile(m, {C}, fullgraph=True)",
    ),
    ("lost", "nested region"): (
        nested_region,
        f"@torch.compiler.nested_compile_region; m.decoder.compile({B}); torch.compile(m, {C})",
    ),
    ("lost", "stance force_eager"): (stance_eager, f'{PARTS}; torch.compiler.set_stance("force_eager")'),
    ("lost", "stance with a back end"): (
        stance_backend,
        f'{PARTS}; torch.compiler.set_stance("default", force_backend=c)',
    ),
    ("lost", "another method"): (other_method, f"{PARTS}; m.decoder.step(m.encoder(x))"),
    ("lost", "Sequential in place"): (sequential_in_place, f"nn.Sequential(mine, mine, builtin).compile({A})"),
    ("lost", "Sequential wrapped"): (sequential_wrapped, f"torch.compile(nn.Sequential(mine, mine, builtin), {A})"),
    ("lost", "ten back ends for one class"): (many_back_ends, "for block, b in pairs: block.compile(backend=b)"),
    ("lost", "compiled twice in place"): (twice_in_place, f"m.encoder.compile({C}); m.encoder.compile({A})"),
    ("lost", "compiled twice, wrapped"): (twice_wrapped, f"m.encoder = torch.compile(torch.compile(m.encoder), {A})"),
    ("lost", "copy, in place"): (copied_in_place, f"{PARTS}; copy.deepcopy(m)"),
    ("lost", "copy, wrapped"): (copied_wrapped, f"{WRAP}; copy.deepcopy(m)"),
    ("lost", "saved whole, in place"): (saved_in_place, 'm.encoder.compile(backend="eager"); torch.save(m, f)'),
    ("lost", "saved whole, wrapped"): (
        saved_wrapped,
        'm.encoder = torch.compile(m.encoder, backend="eager"); torch.save(m, f)',
    ),
    ("state", "plain checkpoint into wrapped"): (before_into_wrapped, f"{WRAP}; m.load_state_dict(plain)"),
    ("state", "wrapped checkpoint into plain"): (wrapped_into_plain, f"{WRAP}; plain.load_state_dict(m.state_dict())"),
    ("state", "the same, strict=False"): (not_strict, "plain.load_state_dict(m.state_dict(), strict=False)"),
    ("state", "the same, prefix taken out"): (
        stripped,
        'plain.load_state_dict({k.replace("_orig_mod.", ""): v for k, v in m.state_dict().items()})',
    ),
    ("state", "in place, both ways"): (in_place_both_ways, f"m.encoder.compile({A}); m.load_state_dict(plain)"),
    ("state", "index, wrapped"): (subscript, f"torch.compile(nn.Sequential(part), {A})[0]"),
    ("state", "truth value, wrapped"): (truth_value, f"part = torch.compile(m.encoder, {A}); if part: ..."),
    ("state", "index, in place or _orig_mod"): (subscript_in_place, f"s.compile({A}); s[0]; wrapper._orig_mod[0]"),
    ("hook", "inside, before the first call"): (hook_first, "m.encoder.linear.register_forward_hook(h); m(x)"),
    ("hook", "inside, later"): (hook_inside, "m(x); m.encoder.linear.register_forward_hook(h); m(x)"),
    ("hook", "on the part, later"): (hook_on_part, "m(x); m.encoder.register_forward_hook(h); m(x)"),
    ("hook", "on the part, under an outer compile"): (
        hook_under_outer,
        f"c = torch.compile(m, {C}); c(x); m.encoder.register_forward_hook(h); c(x)",
    ),
    ("boundary", "one compile"): (one_compile, "torch.compile(m)"),
    ("boundary", "a compile for each part"): (two_compiles, "m.encoder.compile(); m.decoder.compile()"),
    ("boundary", "gradients"): (
        gradients,
        'm.encoder.compile(backend="aot_eager"); m.decoder.compile(backend="inductor"); loss.backward()',
    ),
    ("boundary", "a mode for one part"): (
        modes,
        'm.encoder.compile(mode="max-autotune-no-cudagraphs"); m.decoder.compile()',
    ),
    ("boundary", "dynamic decoder"): (
        dynamic_decoder,
        f"m.encoder.compile({A}, dynamic=False); m.decoder.compile({B}, dynamic=True)",
    ),
}
WITH_OPENVINO: dict[tuple[str, str], tuple[Case, str]] = {
    ("boundary", "a setting for all parts"): (
        setting_for_all,
        f'm.encoder.compile(backend="openvino"); m.decoder.compile({B})',
    ),
    ("boundary", "earlier output"): (
        earlier_output,
        'm.encoder.compile(backend="openvino"); first = m.encoder(x); m.encoder(-x); first',
    ),
    ("boundary", "encoder without gradient"): (
        encoder_without_gradient,
        'm.encoder.compile(backend="openvino"); m.decoder.compile(backend="inductor"); loss.backward()',
    ),
}
EVERY = CASES | WITH_OPENVINO
#: What needs a process of its own: torch.save finds a class again by the name of its module, which is a script's only
#: where it is run as one; and OpenVINO changes settings for all.
APART = {("lost", "saved whole, in place"), ("lost", "saved whole, wrapped"), *WITH_OPENVINO}


def outcome(graphs: Row) -> str:
    """Say which back ends got something."""
    encoder, decoder, outer = (bool(graphs[name]) for name in COUNTS)
    names: dict[tuple[bool, bool, bool], str] = {
        (True, True, False): "each its own",
        (True, False, False): "encoder only",
        (False, True, False): "decoder only",
        (False, False, True): "outer only",
        (False, True, True): "outer and decoder",
        (False, False, False): "nothing compiled",
    }
    return names.get((encoder, decoder, outer), "in part")


def first_line(error: BaseException) -> str:
    """Return the first lines of a message that say something, without what a machine's folders are called."""
    lines = [line.strip() for line in str(error).replace(f"{__name__}.", "").splitlines() if line.strip()]
    text = re.sub(r"(?:/[\w.+-]+)+/", "…/", " ".join(lines[:2]))
    return text if len(text) <= 160 else text[:159] + "…"


def expected(bench: Bench) -> torch.Tensor:
    """Return the output of the model without compiling, in the form that the case gave it."""
    plain = copy.deepcopy(bench.model)
    with torch.compiler.set_stance("force_eager"):
        return plain(bench.x)


@torch.no_grad()
def attempt(case: Case) -> Row:
    """Try a case and return what was found."""
    bench = Bench()
    found: Row = dict.fromkeys(FOUND)
    try:
        result = case(bench)
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        found |= {
            "outcome": "raises",
            "raised_at": bench.at,
            "error": type(inner).__name__,
            "message": first_line(inner),
        }
        return found
    graphs = {name: tap.graphs for name, tap in zip(COUNTS, (bench.encoder, bench.decoder, bench.outer), strict=True)}
    found |= graphs | {"outcome": outcome(graphs)} | bench.found
    if result is not None:
        found["right"] = torch.allclose(result, expected(bench), rtol=TOLERANCE, atol=TOLERANCE)
    return found


# ---------------------------------------------------------------- rows that need a process of their own


def child_main(job: Row) -> None:
    """Try one case and write what was found."""
    torch.set_num_threads(job["threads"])
    case, _ = EVERY[job["kind"], job["case"]]
    Path(job["answer"]).write_text(json.dumps(attempt(case)))
    sys.stdout.flush()
    os._exit(0)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def in_child(kind: str, case: str, threads: int, limit_s: float) -> Row:
    """Return the columns of a case that ran in a process of its own, or "failed" with the reason."""
    with tempfile.TemporaryDirectory(prefix="mixing-traps-", ignore_cleanup_errors=True) as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log.txt")
        job = {"kind": kind, "case": case, "threads": threads, "answer": str(answer)}
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, __file__, "--child", json.dumps(job)],
                env=os.environ | {"TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return {"status": "failed", "note": f"no answer within {limit_s:g} s"}
            finally:
                end_group(process)
        if code == 0 and answer.exists():
            found: Row = json.loads(answer.read_text())
            return found
        if code < 0:
            return {"status": "failed", "note": f"the process died of signal {signal.Signals(-code).name}"}
        last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
        return {"status": "failed", "note": f"the process ended with code {code}: {last[:300]}"}


def package_version() -> str | None:
    """Return the version of OpenVINO, or None where it is not installed."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(
    *,
    kinds: Sequence[str] = ("way", "lost", "state", "hook", "boundary"),
    threads: int = 1,
    child_limit_s: float = 90.0,
) -> list[Row]:
    """Try the cases of these kinds and return one row each (columns: module docstring)."""
    torch.set_num_threads(threads)
    rows: list[Row] = []
    for (kind, case), (function, written) in EVERY.items():
        if kind not in kinds:
            continue
        row: Row = {"kind": kind, "case": case, "written": written, **dict.fromkeys(FOUND)}
        row |= {"status": "ok", "note": None, "device": "cpu", "threads": threads}
        version = package_version() if (kind, case) in WITH_OPENVINO else None
        if (kind, case) not in APART:
            row |= attempt(function)
        elif (kind, case) in WITH_OPENVINO and version is None:
            row |= {"status": "unavailable", "note": NEEDS_OPENVINO}
        else:
            row |= in_child(kind, case, threads, child_limit_s)
        if (kind, case) in WITH_OPENVINO:
            row |= {"package": PACKAGE, "package_version": version}
        rows.append(row)
    torch._dynamo.reset()
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """Try the cases and print what came of them; with ``--child JOB`` do one for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        counts = " ".join("-" if row[name] is None else str(row[name]) for name in COUNTS)
        told = [row["outcome"] or row["status"], row["detail"], row["gradients"], row["message"], row["note"]]
        print(f"{row['kind']:9} {row['case']:36} {counts:7} {' | '.join(str(word) for word in told if word)}"[:170])


if __name__ == "__main__":
    main(sys.argv[1:])
