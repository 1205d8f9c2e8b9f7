# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 90
# ///
"""Which torch.compile back end for my model, and does compiling pay for the number of steps I run?

    python compare_backends.py                                  the demo MLP
    python compare_backends.py my_model.py:build                your model: build() returns (model, example_inputs)
    python compare_backends.py package.module:build --training --steps 50000
    python compare_backends.py my_model.py:build --variants eager,inductor,inductor:max-autotune,openvino

``example_inputs`` is a tensor, a tuple of positional arguments, a dict of keyword arguments, or
(tuple, dict). From Python: ``compare(build, training=True)`` returns one Row per variant.

Variants (``--variants``, separated by commas)
    eager                    the model as it is, not compiled; always measured, twice: the A/A pair shows the noise
    NAME, NAME:MODE          ``torch.compile(model, backend=NAME, mode=MODE)``: inductor, inductor:max-autotune, ...
    compile:NAME             the same where NAME alone would mean something else: compile:eager
    file.py:callable         a back end of your own; also package.module:callable
    wrap:file.py:callable    no torch.compile: callable(model) returns what is called
    ...+KEY=VALUE            options for one variant: inductor+freezing=true

How it is measured
    Alone: each variant is compiled in a fresh process with a fresh cache folder *and* a fresh TMPDIR (the
    precompiled C++ header lives there). That gives cold compile time, peak memory, the look inside, and whether the
    results are right; crashes and hangs end there. Correct means: outputs (and gradients in training) compared
    with float64, or with eager where float64 does not run; whole numbers and booleans count by the share that differs.
    A wrong row has no times.

    Together: what lived through that is timed in one process, each variant with its own copy of the module, in
    blocks of ``block_ms`` whose order is new each round. Several fresh processes on the warm cache do this; in each,
    another variant compiles first, and that is its warm compile time. With ``isolated`` every variant has a
    process of its own instead.

    The ratio: in each round eager (the geometric mean of its two copies) over the variant; the median over the
    rounds of a process; the mean of the logarithms over processes, with Student's t for its 95 % interval. A process
    has a bias of its own (placement of memory and code), so processes, not blocks, are the independent samples; a
    bootstrap of so few would be too narrow. The spread of the A/A pair is the least that any row may claim. This is
    the two-level design of Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013.

    The verdict is "faster" or "slower" where the interval excludes 1 and the effect is larger than ``margin``
    and than the A/A pair's own; else "no difference". Processes are added until every row is clear (at 99 %, since
    looking often would find a difference where none is) or ``processes`` is reached.

    Compile time is the time of SETTLING calls from ``torch.compile()`` on, less as many steady steps (three,
    because CUDA graphs are recorded in the second). Importing TorchDynamo and Inductor counts: you wait for it.

Columns (Row lists them all, with units); T is the total time, N the number of steps
    T = compile + N x step;  R = N x (step of eager - step) / compile: above 1 compiling pays;
    N* = compile / (step of eager - step): from there on it pays ("never" where the verdict is not "faster").
    The pick is the simplest variant (eager first, then least compile time) that the best T does not clearly beat.

Exit code: 0 when something was measured, 1 when nothing could be or a report could not be written, 2 for bad arguments,
130 when it was interrupted before there was anything to report.
"""

# ruff: noqa: E402 - Ctrl-C is taken care of before the long imports

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = "compare_backends.py: interrupted; nothing was measured yet"
if __name__ == "__main__" and sys.argv[1:2] != ["--child"] and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    # Importing torch takes a second or more. Ctrl-C ends it at once: an exception may get lost in an import.
    signal.signal(signal.SIGINT, lambda *_: (os.write(2, f"{INTERRUPTED}\n".encode()), os._exit(130)))

import argparse
import contextlib
import copy
import csv
import dataclasses
import gc
import importlib
import importlib.util
import inspect
import io
import json
import math
import platform
import random
import re
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import threading
import time
import timeit
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import timer

#: Set for child processes: compare() must not start again in them.
CHILD_MARK = "COMPARE_BACKENDS_CHILD"
#: Raised whenever a change to this file could move a time, a ratio or a verdict: such results are not compared.
METHOD = 1
AGAIN = "eager again"
#: Characters kept of what a failed child printed.
LOG_KEPT = 4000
NOT_COMPARABLE = "not comparable"
EMPTY = "every output is empty, so nothing can be compared: hand over inputs for which the model returns values"
#: Where eager is farther than this from float64, a tolerance that follows it would let anything pass.
GREATEST_ERROR = 0.1
SETTLING = 3
STEADY_S = 0.2
MIN_ROUNDS = 5
PARTS = 5
#: glibc's malloc: never give memory back, and take 128 MiB at once.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**27),
}
#: So many page faults a step (4 KiB each) are worth a remark.
MANY_FAULTS = 100
LEAST_PROCESSES = 4
#: Who wants more is refused. From some thousand threads on systems and containers start no more of them; far fewer,
#: but more than there are cores, may be meant.
THREADS_PER_CORE = 8
#: A compile time that was taken once is trusted to this fraction when totals are compared.
SINGLE_COMPILE_SPREAD = 0.1
#: So many cores at work for other programs while steps are timed are worth a warning.
BUSY_CORES = 0.2
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
#: Back ends that run the captured operators one by one, as they should.
OPERATOR_BY_OPERATOR = re.compile(r"(aot_)?eager.*|pre_dispatch_eager|invoke_subgraph|cudagraphs")
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 5e-3, "bfloat16": 3e-2}
#: A deep network in a short format is as far from float64 as the format allows: up to this multiple of eager's error.
EAGER_ERROR_FACTOR = 4.0


# ================================================================ what is asked, and what is answered


class UsageError(Exception):
    """The arguments cannot be meant: exit code 2."""


class UnknownBackEnd(Exception):
    """A back end or wrapper of the user's that cannot be found: a failed row, the others go on."""


class NothingToCompare(Exception):
    """The outputs of the plain model hold no value: of no variant could be said that it is right."""


@dataclass(frozen=True)
class Variant:
    """One way to call the model; ``kind`` is "plain", "backend", "custom" or "wrap"."""

    label: str
    kind: str = "plain"
    target: str = ""
    mode: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> str:
        """How one writes it."""
        if self.kind == "plain":
            return "model(...)"
        if self.kind == "wrap":
            return f"{self.target.rpartition(':')[2]}(model)(...)"
        name = f'"{self.target}"' if self.kind == "backend" else self.target.rpartition(":")[2]
        parts = ["model", f"backend={name}"]
        parts += [f'mode="{self.mode}"'] if self.mode else []
        parts += [f"options={self.options}"] if self.options else []
        return f"torch.compile({', '.join(parts)})(...)"

    @property
    def wants_cuda_graphs(self) -> bool:
        """Whether this variant promises to replay CUDA graphs."""
        return (
            (self.kind == "backend" and self.target == "cudagraphs")
            or self.mode in ("reduce-overhead", "max-autotune")
            or bool(self.options.get("triton.cudagraphs"))
        )


@dataclass
class Settings:
    """What to measure and how; every field is also a keyword of compare() and an option of the command line."""

    model: str = ""  # file.py:factory or package.module:factory; "" is the demo MLP
    factory_args: dict[str, Any] = field(default_factory=dict)  # keywords for the factory
    variants: tuple[str, ...] = ()  # () chooses by device
    options: dict[str, Any] = field(default_factory=dict)  # options= of every compiled variant that takes any
    training: bool = False  # forward and backward instead of inference
    optimizer: str | None = None  # a class of torch.optim: its step() is part of a training step
    inference_mode: bool = False  # torch.inference_mode() instead of torch.no_grad()
    dtype: str | None = None  # convert model and inputs: float32, bfloat16, float16, float64
    autocast: str | None = None  # run forward under torch.autocast of this dtype
    device: str | None = None  # None: cuda where there is one
    threads: int = 1  # CPU threads; 0: what torch takes. One is steady on a shared machine, and Timer's default too
    channels_last: bool = False
    batches: tuple[int, ...] = ()  # a step goes through these batch sizes
    dynamic: bool | None = None  # of torch.compile
    fullgraph: bool = False  # of torch.compile
    steps: int = 10_000  # N of the job
    seconds: float = 6.0  # stepping time per variant, over all processes
    processes: int = 6  # at most so many processes time the steps
    cold_repeats: int = 1
    block_ms: float = 20.0
    margin: float = 0.02  # a smaller effect is no difference
    timeout: float = 600.0  # seconds that one variant may take before it counts as hanging
    isolated: bool = False  # time each variant in a process of its own
    keep_memory: bool = False  # tell the C allocator (glibc) to keep freed memory, as a program may with KEEP_MEMORY
    seed: int = 0

    @property
    def mode(self) -> str:
        """The workload in words."""
        if self.training:
            return f"training + {self.optimizer}" if self.optimizer else "training"
        return "inference (inference_mode)" if self.inference_mode else "inference"


@dataclass
class Row:
    """What is known of one variant. Not measured is None; times are None unless status is "ok"."""

    variant: str
    call: str
    model: str = ""  # file:factory, without the folder
    status: str = "ok"  # ok, failed, wrong, not measured
    note: str | None = None
    failure: str | None = None  # kind: unknown back end, compile error, missing compiler, out of memory, crash, hang...
    log: str | None = None  # what the process of a failed row printed last
    phase: str | None = None  # where it failed: start, model, torch.compile, first call, backward, step, look inside...
    workload: str = ""
    device: str | None = None
    threads: int | None = None
    # right?
    max_rel_error: float | None = None  # largest error over largest reference value (share that differs), worst tensor
    tolerance: float | None = None
    reference: str | None = None  # float64, eager, eager with the same seed, not comparable
    # compile, seconds
    first_call_s: float | None = None  # torch.compile() and the first call, cold
    compile_cold_s: float | None = None
    compile_cold_low_s: float | None = None  # least and greatest of the repeats
    compile_cold_high_s: float | None = None
    compile_warm_s: float | None = None
    compile_warm_low_s: float | None = None
    compile_warm_high_s: float | None = None
    # cold compile, split without overlap; None where torch does not tell
    compile_dynamo_s: float | None = None
    compile_aot_s: float | None = None
    compile_inductor_s: float | None = None
    compile_native_s: float | None = None  # C++ or Triton compiler
    compile_rest_s: float | None = None  # imports above all; on CUDA also autotuning at run time, recording of graphs
    # memory, MiB, while it compiled and stepped alone
    peak_mib: float | None = None  # resident set on a CPU, allocated by torch on CUDA
    peak_reserved_mib: float | None = None  # CUDA only
    peak_child_mib: float | None = None  # the largest helper process (a C++ compiler) where it is above peak_mib
    page_faults: float | None = None  # per step: memory that the C allocator gave back to the system and takes again
    # steps
    step_us: float | None = None  # median; quartiles over all blocks
    step_q1_us: float | None = None
    step_q3_us: float | None = None
    speedup_ratio: float | None = None  # time of eager / time of this
    speedup_low: float | None = None  # bounds of the 95 % interval
    speedup_high: float | None = None
    verdict: str | None = None  # faster, slower, no difference
    resolved: bool | None = None  # False: the interval reaches beyond the margin, more processes could tell
    saved_us: float | None = None
    # the sum
    steps: int = 0
    total_cold_s: float | None = None
    total_warm_s: float | None = None
    payoff_cold_r: float | None = None
    payoff_warm_r: float | None = None
    break_even_cold: int | None = None
    break_even_cold_low: int | None = None
    break_even_cold_high: int | None = None  # None with a low bound: no upper bound
    break_even_warm: int | None = None
    break_even_warm_low: int | None = None
    break_even_warm_high: int | None = None
    break_even_text: str | None = None  # "never" where there is no N*
    pick_cold: bool = False
    pick_warm: bool = False
    pick_note: str | None = None
    # inside
    graphs: int | None = None
    graph_breaks: int | None = None  # places in the code
    breaks: str | None = None  # file:line reason; ...
    recompiles: int | None = None
    recompile_reasons: str | None = None
    operators: int | None = None  # ATen operators that a step runs one by one; over --batches the mean, rounded
    ran: str | None = None  # "yes", or "no: ..." where the named back end did not run the graph
    cuda_graphs: str | None = None  # "replayed", or "no: ..." where they were asked for
    # samples
    processes: int = 0
    rounds: int = 0
    noisy: bool | None = None  # the A/A pair of this run differs
    samples_us: list[float] = field(default_factory=list)  # every block
    samples_process: list[int] = field(default_factory=list)  # which process took it
    samples_compile_cold_s: list[float] = field(default_factory=list)
    samples_compile_warm_s: list[float] = field(default_factory=list)

    def fail(self, status: str, note: str, failure: str | None = None, phase: str | None = None) -> None:
        """Turn this into a row without times."""
        self.status, self.note, self.failure, self.phase = status, note, failure, phase
        for item in fields(self):
            if item.name.endswith(("_s", "_us")) or item.name.startswith(("speedup_", "verdict", "resolved")):
                setattr(self, item.name, [] if item.name.startswith("samples_") else None)
        self.samples_process, self.processes, self.rounds = [], 0, 0


@dataclass
class Report:
    """Everything of one run. ``clock_s`` says where the wall time went."""

    settings: Settings
    rows: list[Row] = field(default_factory=list)
    picks: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    clock_s: dict[str, float] = field(default_factory=dict)
    noisy: bool = False
    interrupted: bool = False

    @property
    def measured(self) -> bool:
        """Whether any row has a step time, or a compile time where it was interrupted before."""
        return any(row.step_us is not None or row.compile_cold_s for row in self.rows)

    @property
    def tells(self) -> bool:
        """Whether any variant had its turn, if only to fail."""
        return any(row.status != "not measured" for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON data: rows with every sample, environment, settings."""
        head = {"format": "compare-backends/report", "version": 1, "method": METHOD}
        return head | {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value


def parse_value(text: str) -> Any:
    """Return what ``text`` means: true, false, none, a number, else the text."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """Return {key: value} of ``key=value`` texts; UsageError where one has no ``=``."""
    answer: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"{pair!r}: wants KEY=VALUE")
        answer[key.strip()] = parse_value(value.strip())
    return answer


def split_variants(text: str) -> tuple[str, ...]:
    """Return the variants of a comma-separated text."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_variant(text: str, options: dict[str, Any]) -> Variant:
    """Return the variant that ``text`` names (forms: module docstring); ``options`` are those for all."""
    name, *pairs = text.strip().split("+")
    label = re.sub(r"[^:+=]*[/\\]", "", text.strip())  # the file is enough, without its folder
    try:
        own = parse_pairs(pairs)
    except UsageError as error:
        raise UsageError(f"--variants {text.strip()}: after each + it {str(error).partition(': ')[2]}") from None
    if not name:
        raise UsageError(f"{text!r}: names no variant")
    if name == "eager":
        if own:
            raise UsageError(f"{text!r}: eager is not compiled and takes no options")
        return Variant(label)
    if name.startswith("wrap:"):
        return Variant(label, "wrap", name.removeprefix("wrap:"))
    forced = name.startswith("compile:")
    name = name.removeprefix("compile:")
    head, _, tail = name.rpartition(":")
    custom = head and not forced and head != "inductor" and tail.isidentifier() and tail not in MODES
    if custom:
        return Variant(label, "custom", name, None, options | own)
    target, _, mode = name.partition(":")
    common = {} if OPERATOR_BY_OPERATOR.fullmatch(target) else options
    return Variant(label, "backend", target, mode or None, common | own)


def parse_variants(texts: Sequence[str], settings: Settings, device: str) -> list[Variant]:
    """Return the variants, eager first, then its A/A copy; a name that comes again gets a number."""
    chosen = list(texts)
    if not chosen:
        chosen = ["aot_eager", "inductor"]
        if device.startswith("cuda"):
            chosen += ["inductor:reduce-overhead", "cudagraphs"]
    if "eager" in chosen:
        chosen.remove("eager")
    answer = [Variant("eager"), Variant(AGAIN)]
    seen: Counter[str] = Counter(["eager"])
    for text in chosen:
        variant = parse_variant(text, settings.options)
        seen[variant.label] += 1
        if seen[variant.label] > 1:
            variant = dataclasses.replace(variant, label=f"{variant.label}#{seen[variant.label]}")
        answer.append(variant)
    return answer


# ================================================================ the demo model


def demo_mlp(batch: int = 64) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return an MLP 512-256-128-10 with ReLU and its input, shape (batch, 512), float32."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.randn(batch, 512)


# ================================================================ child: the model and its step


@dataclass
class Inputs:
    """Arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor]:
        """Return every tensor of the inputs."""
        return tensors_of([self.args, self.kwargs])

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        """Return the inputs with every tensor changed."""
        return Inputs(map_tensors(self.args, change), map_tensors(self.kwargs, change))


class AsModule(torch.nn.Module):
    """Wraps a plain function, so that everything that is measured is a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        owner = getattr(function, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            self.owner = owner  # a bound method: its module is moved, copied and differentiated with it

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return ``value`` with every tensor in its lists, tuples and dicts changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: map_tensors(getattr(value, f.name), change) for f in fields(value) if f.init}
        return dataclasses.replace(value, **changed)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, change) for item in value)
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an output: nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for item in value.values() for t in tensors_of(item)]
    if isinstance(value, list | tuple):
        return [t for item in value for t in tensors_of(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [t for item in fields(value) for t in tensors_of(getattr(value, item.name))]
    return []


def load_file(place: str) -> types.ModuleType:
    """Return the module in a file, run once a process; it finds its neighbours as a script would."""
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {place}")
    name = path.stem
    while name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(path):
        name += "_"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return module


def load_object(spec: str) -> Any:
    """Return what ``file.py:name`` or ``package.module:name`` names; UsageError where there is no such thing."""
    place, _, name = spec.rpartition(":")
    if not place:
        raise UsageError(f"{spec!r}: wants file.py:name or package.module:name")
    if place.endswith(".py"):
        module = load_file(place)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and place.startswith(error.name):
                raise UsageError(f"{spec!r}: {error}") from error
            raise  # the module is there; something that it imports is not
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{spec!r}: {place} has no {part!r}")
        found = getattr(found, part)
    return found


def dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, of a sparse or jagged tensor too."""
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = tensor.to_padded_tensor(0.0)
    return (tensor if tensor.layout == torch.strided else tensor.to_dense()).cpu().clone()


def seed_everything(seed: int) -> None:
    """Seed torch, ``random``, and NumPy where it is loaded."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def as_inputs(value: Any) -> Inputs:
    """Return the arguments that a factory gave: a tensor, a tuple, a dict, or (tuple, dict)."""
    if isinstance(value, Mapping):
        return Inputs((), dict(value))
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], Mapping):
            return Inputs(tuple(value[0]), dict(value[1]))
        return Inputs(tuple(value))
    return Inputs((value,))


def inputs_of(made: Sequence[Any]) -> Inputs:
    """Return the arguments in (model, inputs) or (model, args, kwargs)."""
    if len(made) == 2:
        return as_inputs(made[1])
    args = made[1] if isinstance(made[1], list | tuple) else () if made[1] is None else (made[1],)
    return Inputs(tuple(args), dict(made[2]))


def rebatch(inputs: Inputs, size: int) -> Inputs:
    """Return the inputs with ``size`` samples: tensors whose first dimension is the batch are cut or repeated."""
    first = next((t for t in tensors_of([inputs.args, inputs.kwargs]) if t.dim()), None)
    if first is None:
        raise UsageError("--batches: the example inputs have no tensor with a batch dimension")
    old = first.shape[0]
    if not old:
        raise UsageError("--batches: the example inputs hold an empty batch, from which none can be made")
    index = torch.arange(size, device="cpu") % old

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim() or tensor.shape[0] != old:
            return tensor
        return tensor.detach().index_select(0, index.to(tensor.device)).requires_grad_(tensor.requires_grad)

    return inputs.map(cut)


class Workload:
    """The model, its inputs and what a step is, as the settings say, in this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.factory: Callable[..., Any] = load_object(settings.model) if settings.model else demo_mlp
        self.weights: dict[tuple[Any, ...], torch.Tensor] = {}
        self.dtype = None if settings.dtype is None else getattr(torch, settings.dtype)
        if self.device.startswith("cuda:"):
            torch.cuda.set_device(self.device)  # its memory statistics are those of the current device

    def build(self) -> tuple[torch.nn.Module, list[Inputs]]:
        """Return the model, the same each time, and the inputs of each batch size."""
        seed_everything(self.settings.seed)
        made = self.factory(**self.settings.factory_args)
        name = self.settings.model or "demo_mlp"
        if not isinstance(made, tuple | list) or len(made) not in (2, 3):
            raise UsageError(f"{name}: must return (model, example_inputs), not {type(made).__name__}")
        if hasattr(made[0], "_orig_mod") or getattr(made[0], "_compiled_call_impl", None) is not None:
            raise UsageError(f"{name}: returns a model that is compiled already; return the plain one")
        if not callable(made[0]):
            raise UsageError(f"{name}: the model is a {type(made[0]).__name__}, which cannot be called")
        model = made[0] if isinstance(made[0], torch.nn.Module) else AsModule(made[0])
        example = inputs_of(made)
        batches = [self.batch(example, size) for size in self.settings.batches] or [example]
        model = model.train(self.settings.training).to(self.device)
        if self.dtype is not None:
            model = model.to(self.dtype)
        if self.settings.channels_last:
            model = model.to(memory_format=torch.channels_last)
        return model, [inputs.map(self.place) for inputs in batches]

    def batch(self, example: Inputs, size: int) -> Inputs:
        """Return inputs with ``size`` samples: the factory's own where it takes ``batch``."""
        if "batch" in inspect.signature(self.factory).parameters:
            return inputs_of(self.factory(**self.settings.factory_args | {"batch": size}))
        return rebatch(example, size)

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return an input on the device, in the dtype and layout of the settings."""
        wants_gradient = tensor.requires_grad
        tensor = tensor.detach().to(self.device)
        if self.dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        if self.settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor.requires_grad_() if wants_gradient else tensor

    def gradients(self) -> contextlib.AbstractContextManager[Any]:
        """The gradient mode of the workload."""
        if self.settings.training:
            return torch.enable_grad()
        return torch.inference_mode() if self.settings.inference_mode else torch.no_grad()

    def cast(self) -> contextlib.AbstractContextManager[Any]:
        """Autocast where asked for; entered in each step, as a program would, so that weights are cast each time."""
        if self.settings.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=getattr(torch, self.settings.autocast))

    def loss(self, output: Any) -> torch.Tensor:
        """Return a scalar to differentiate: the model's own loss, else a fixed random weighting of the outputs."""
        own = getattr(output, "loss", None)
        tensors = [own] if isinstance(own, torch.Tensor) else tensors_of(output)
        tensors = [t for t in tensors if t.is_floating_point() and t.requires_grad]
        if not tensors:
            raise RuntimeError("no output requires a gradient: the backward graph was dropped")
        if len(tensors) == 1 and tensors[0].dim() == 0:
            return tensors[0]
        return torch.stack([(t * self.weight(i, t)).sum().float() for i, t in enumerate(tensors)]).sum()

    def weight(self, index: int, like: torch.Tensor) -> torch.Tensor:
        """Return the fixed weights of one output; the same numbers in every dtype."""
        key = (index, tuple(like.shape), like.dtype)
        if key not in self.weights:
            generator = torch.Generator().manual_seed(1000 + index)
            numbers = torch.randn(like.shape, generator=generator, device="cpu").bfloat16() / max(
                1.0, like.numel() ** 0.5
            )
            self.weights[key] = numbers.to(like.device, like.dtype)
        return self.weights[key]

    def cycle(self, call: Callable[..., Any], model: torch.nn.Module, batches: Sequence[Inputs]) -> Callable[[], Any]:
        """Return the function that is timed: one step for each batch size; the caller sets gradients()."""
        cast, loss = self.cast, self.loss
        if not self.settings.training:
            if len(batches) == 1 and self.settings.autocast is None:
                args, kwargs = batches[0].args, batches[0].kwargs
                return lambda: call(*args, **kwargs)

            def infer() -> None:
                for inputs in batches:
                    with cast():
                        call(*inputs.args, **inputs.kwargs)

            return infer

        parameters = [p for p in model.parameters() if p.requires_grad]
        optimizer = self.make_optimizer(parameters)
        leaves = parameters + [t for inputs in batches for t in inputs.tensors() if t.requires_grad]

        def train() -> None:
            for inputs in batches:
                for leaf in leaves:
                    leaf.grad = None
                with cast():
                    value = loss(call(*inputs.args, **inputs.kwargs))
                value.backward()
                if optimizer is not None:
                    optimizer.step()

        return train

    def make_optimizer(self, parameters: list[Any]) -> Any:
        """Return the optimizer, or None. Its rate is 0: the arithmetic of an update, and no step changes the next."""
        if self.settings.optimizer is None:
            return None
        kind = getattr(torch.optim, self.settings.optimizer)
        try:
            return kind(parameters, lr=0.0)
        except ValueError:  # SparseAdam wants more than 0: this is lost in rounding
            return kind(parameters, lr=1e-30)

    def evaluate(
        self,
        call: Callable[..., Any],
        model: torch.nn.Module,
        batches: Sequence[Inputs],
        *,
        cast: bool = True,
        seed: int = 1,
    ) -> dict[str, torch.Tensor]:
        """Return outputs of each batch and gradients of the first, seeded, as copies on the CPU."""
        found: dict[str, torch.Tensor] = {}
        for number, inputs in enumerate(batches):
            seed_everything(seed)
            for leaf in [*model.parameters(), *inputs.tensors()]:
                leaf.grad = None
            with self.gradients(), self.cast() if cast else contextlib.nullcontext():
                output = call(*inputs.args, **inputs.kwargs)
                value = self.loss(output) if self.settings.training else None
            for index, tensor in enumerate(tensors_of(output)):
                found[f"output {index} of batch {number}"] = dense_copy(tensor)
            if value is not None:
                value.backward()
                if number == 0:
                    for name, parameter in model.named_parameters():
                        if parameter.grad is not None:
                            found[f"gradient of {name}"] = dense_copy(parameter.grad)
                    for index, tensor in enumerate(inputs.tensors()):
                        if tensor.grad is not None:
                            found[f"gradient of input {index}"] = dense_copy(tensor.grad)
        return found


def prepare(variant: Variant, model: torch.nn.Module, settings: Settings) -> Callable[..., Any]:
    """Return the callable of a variant for a module of its own."""
    if variant.kind == "plain":
        return model
    backend: Any = variant.target
    if variant.kind in ("wrap", "custom"):
        try:
            backend = load_object(variant.target)
        except UsageError as error:
            raise UnknownBackEnd(str(error)) from None
    if variant.kind == "wrap":
        made: Callable[..., Any] = backend(model)
        return made
    more: dict[str, Any] = {}
    if variant.options:
        more["options"] = dict(variant.options)
    if variant.mode and variant.options and variant.target == "inductor":
        # torch.compile takes a mode or options, not both; a mode is a set of options.
        from torch._inductor import list_mode_options

        more["options"] = list_mode_options(variant.mode) | more["options"]
    elif variant.mode:
        more["mode"] = variant.mode
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        # Variants share the model's code object; else one's recompiles would count against another's limit.
        more["isolate_recompiles"] = True
    compiled: Callable[..., Any] = torch.compile(
        model, backend=backend, dynamic=settings.dynamic, fullgraph=settings.fullgraph, **more
    )
    return compiled


def own_copy(workload: Workload, model: torch.nn.Module) -> torch.nn.Module:
    """Return another copy of the module; one that cannot be copied is built again."""
    try:
        return copy.deepcopy(model)
    except Exception:
        return workload.build()[0]


@torch.no_grad()
def restore(model: torch.nn.Module, fresh: torch.nn.Module) -> None:
    """Put the values of ``fresh`` into the parameters and buffers of ``model``, in place."""
    for source, target in (
        (fresh.named_parameters(), dict(model.named_parameters())),
        (fresh.named_buffers(), dict(model.named_buffers())),
    ):
        for name, new in source:
            if name in target and target[name].shape == new.shape:
                target[name].copy_(new)


# ================================================================ child: right or wrong


def relative_errors(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """Return the worst error over the tensors: largest absolute error over largest absolute reference value.

    A gradient that is nearly zero everywhere is measured against a thousandth of the largest gradient: its own
    rounding noise says nothing. Whole numbers and booleans are answers, not sizes (an argmax, a mask): their error is
    the share of values that differ. Infinite where a tensor is missing, has another shape, or is not finite in one
    only.
    """
    largest = {name: largest_of(t) for name, t in wanted.items() if is_real_valued(t)}
    floor = 1e-3 * max((v for name, v in largest.items() if name.startswith("gradient")), default=0.0)
    worst = 0.0
    for name, reference in wanted.items():
        if name not in found or found[name].shape != reference.shape:
            return math.inf
        if name not in largest:
            differ = found[name] != reference
            worst = max(worst, float(differ.double().mean()) if differ.numel() else 0.0)
            continue
        kind = torch.complex128 if reference.is_complex() or found[name].is_complex() else torch.float64
        result, exact = found[name].to(kind), reference.to(kind)
        same = (result == exact) | (result.isnan() & exact.isnan())
        error = torch.where(same, 0.0, (result - exact).abs())
        size = max(largest[name], floor if name.startswith("gradient") else 0.0)
        value = float(error.max()) if error.numel() else 0.0
        worst = max(worst, (value / size if size else value) if math.isfinite(value) else math.inf)
    return worst


def is_real_valued(tensor: torch.Tensor) -> bool:
    """Whether its values are sizes that rounding moves; False for whole numbers and booleans."""
    return tensor.is_floating_point() or tensor.is_complex()


def largest_of(tensor: torch.Tensor) -> float:
    """Return the largest finite absolute value, 0 where there is none."""
    finite = tensor.double().abs() if not tensor.is_complex() else tensor.abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return an input in float64; whole numbers stay."""
    return tensor.detach().double().requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else tensor


def in_float64(workload: Workload) -> dict[str, torch.Tensor] | None:
    """Return the results of the plain model in float64, or None where it does not run so."""
    try:
        model, batches = workload.build()
        batches = [b.map(in_double) for b in batches]
        model = model.double()
        return workload.evaluate(model, model, batches, cast=False)
    except Exception:
        return None


def tolerance_of(workload: Workload, wanted: dict[str, torch.Tensor]) -> float:
    """Return the relative error that the dtype of the computation allows."""
    kind = workload.settings.autocast or workload.settings.dtype
    if kind is None:
        kinds = {str(t.dtype).removeprefix("torch.") for t in wanted.values()} & set(TOLERANCE)
        return max((TOLERANCE[k] for k in kinds), default=TOLERANCE["float32"])
    return TOLERANCE.get(kind, TOLERANCE["bfloat16"])


def check_plain(workload: Workload) -> dict[str, Any]:
    """Return what the other checks need: eager's own error, the tolerance, and whether the model draws at random."""
    model, batches = workload.build()
    first = workload.evaluate(model, model, batches)
    outputs = [tensor for name, tensor in first.items() if name.startswith("output")]
    if outputs and not any(tensor.numel() for tensor in outputs):
        # Gradients are no way out: those of an empty batch are zeros, whoever computes them.
        raise NothingToCompare(EMPTY)
    model, batches = workload.build()
    tolerance = tolerance_of(workload, first)
    # Not "> 0": threads may add up in another order.
    is_random = relative_errors(workload.evaluate(model, model, batches, seed=2), first) > tolerance
    exact = None if is_random else in_float64(workload)
    error = relative_errors(first, exact) if exact is not None else 0.0
    if not math.isfinite(error):
        exact, error = None, 0.0
    if not first or error > GREATEST_ERROR:
        why = "the output holds no tensor" if not first else f"eager itself is {error:.1g} away from float64"
        return {"random": False, "reference": f"{NOT_COMPARABLE}: {why}", "error": None, "tolerance": tolerance}
    reference = "eager with the same seed" if is_random else "eager" if exact is None else "float64"
    return {
        "random": is_random,
        "reference": reference,
        "error": error,
        "tolerance": max(tolerance, EAGER_ERROR_FACTOR * error),
    }


def check_variant(
    workload: Workload, variant: Variant, call: Callable[..., Any], model: torch.nn.Module, plain: dict[str, Any]
) -> dict[str, Any]:
    """Compare a variant, as it now runs, with the reference; returns error, tolerance and reference."""
    if plain["reference"].startswith(NOT_COMPARABLE):
        return {key: plain[key] for key in ("error", "tolerance", "reference")}
    fresh, batches = workload.build()
    if variant.kind == "wrap":  # it may have folded or converted the weights: values of ours would not fit
        model = workload.build()[0]
        call = prepare(variant, model, workload.settings)
    else:
        restore(model, fresh)
    found = workload.evaluate(call, model, batches)
    reference = plain["reference"]
    wanted = in_float64(workload) if reference == "float64" else None
    if wanted is None:
        reference = "eager" if reference == "float64" else reference
        # Inputs of its own: the model may write into them.
        wanted = workload.evaluate(fresh, fresh, workload.build()[1])
    error = relative_errors(found, wanted)
    answer = {"error": error, "tolerance": plain["tolerance"], "reference": reference}
    if not plain["random"] or error <= plain["tolerance"]:
        return answer
    if variant.kind == "backend" and variant.target == "inductor":
        # Inductor draws random numbers in an order of its own unless told otherwise.
        from torch._inductor import config

        with config.patch(fallback_random=True):
            torch._dynamo.reset()
            again, batches = workload.build()
            found = workload.evaluate(prepare(variant, again, workload.settings), again, batches)
            error = relative_errors(found, wanted)
        if error <= plain["tolerance"]:
            return answer | {"error": error, "reference": "eager with the same seed, fallback_random"}
    return answer | {"error": None, "reference": f"{NOT_COMPARABLE}: random numbers"}


# ================================================================ child: the look inside


#: Operators that only look at memory in another way.
NO_WORK = re.compile(
    r"aten::(_?to(_copy)?|t|transpose|permute|as_strided|expand|view|_unsafe_view|reshape|_reshape_alias|alias|detach"
    r"|resolve_conj|resolve_neg|empty.*|new_empty.*|select|slice|narrow|split.*|chunk|unbind|squeeze|unsqueeze|linear"
    r"|matmul|copy_|fill_|zero_|zeros.*|ones.*|flatten|contiguous|lift_fresh|is_nonzero|item|_local_scalar_dense)"
)


@contextlib.contextmanager
def counted_replays() -> Iterator[list[int]]:
    """Count replays of CUDA graphs in a ``with`` block: the back ends and modes call this method for each."""
    graph, count = torch.cuda.CUDAGraph, [0]
    original = graph.replay

    def replay(self: Any) -> None:
        count[0] += 1
        original(self)

    graph.replay = replay
    try:
        yield count
    finally:
        graph.replay = original


def operators_of(step: Callable[[], Any], cuda: bool) -> tuple[dict[str, int] | None, int | None]:
    """Return the ATen operators of one step with their counts, and its CUDA graph replays (None on a CPU).

    The operators are None where the profiler is busy or not built in.
    """
    from torch.profiler import ProfilerActivity, profile

    work: dict[str, int] | None = None
    with counted_replays() if cuda else contextlib.nullcontext([0]) as replays:
        try:
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                step()
                timer()
        except RuntimeError:
            replays[0] = 0
            step()
            timer()
        else:
            names = Counter(event.name for event in profiler.events())
            work = {name: n for name, n in names.items() if name.startswith("aten::") and not NO_WORK.fullmatch(name)}
    return work, replays[0] if cuda else None


def first_line(text: str, limit: int = 300) -> str:
    """Return the first line that says something."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0][:limit] if lines else ""


def captured() -> dict[str, Any]:
    """Return what Dynamo counted in this process: graphs, breaks with place and reason, recompiles."""
    if "torch._dynamo" not in sys.modules:
        return {"graphs": 0, "breaks": [], "recompiles": []}
    from torch._dynamo import utils

    breaks: dict[str, None] = {}
    for reason in getattr(utils, "graph_break_reasons", []):
        frame = reason.user_stack[-1] if reason.user_stack else None
        place = f"{Path(frame.filename).name}:{frame.lineno}" if frame else "?"
        text = first_line(str(reason.reason), 120)
        breaks[f"{place} {'data-dependent branch' if text.startswith('generic_jump') else text}"] = None
    recompiles = [
        first_line(str(metric.recompile_reason), 160)
        for metric in utils.get_compilation_metrics()
        if getattr(metric, "recompile_reason", None)
    ]
    return {
        "graphs": int(utils.counters["stats"]["unique_graphs"]),
        "breaks": list(breaks),
        "recompiles": recompiles,
        "graph_skips": int(utils.counters["inductor"]["cudagraph_skips"]),
    }


class Compilers:
    """Notes when external compilers run, whatever torch calls them for: they go through subprocess.run."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note every subprocess.run of a ``with`` block, on whichever thread."""
        original = subprocess.run

        def noted(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.spans.append((start, time.perf_counter()))

        subprocess.run = noted
        try:
            yield
        finally:
            subprocess.run = original

    @property
    def busy_s(self) -> float:
        """Seconds in which at least one ran."""
        total, reached = 0.0, -math.inf
        for start, end in sorted(self.spans):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total


def compile_phases(compilers_s: float) -> dict[str, float]:
    """Return seconds in Dynamo, AOTAutograd, Inductor and the C++ or Triton compiler, without overlap.

    Torch's timers are nested: each holds the next, so each is taken less the next.
    """
    if "torch._dynamo" not in sys.modules:
        return {}
    from torch._dynamo import utils

    metrics = utils.get_compilation_metrics()
    if not metrics:
        return {}

    def total(name: str, forward_only: bool = False) -> float:
        chosen = [m for m in metrics if not forward_only or getattr(m, "dynamo_cumulative_compile_time_us", None)]
        return sum(getattr(m, name, None) or 0 for m in chosen) / 1e6

    dynamo, aot = (total(f"{name}_cumulative_compile_time_us") for name in ("dynamo", "aot_autograd"))
    backward = total("backward_cumulative_compile_time_us")
    inductor = total("inductor_cumulative_compile_time_us")
    inner = total("inductor_cumulative_compile_time_us", forward_only=True)
    if torch.cuda.is_initialized():
        compilers_s = max(compilers_s, total("triton_compile_time_us"))
    native = min(compilers_s, inductor)
    return {
        "dynamo": max(0.0, dynamo - aot),
        "aot": max(0.0, aot - inner) + max(0.0, backward - (inductor - inner)),
        "inductor": inductor - native,
        "native": native,
    }


def peak_memory(device: str) -> dict[str, float | None]:
    """Return the peaks of this process in MiB: resident (or allocated and reserved on CUDA), largest helper."""
    answer: dict[str, float | None] = {"peak": None, "reserved": None, "child": None}
    try:
        import resource
    except ImportError:  # Windows has no such counter
        pass
    else:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        own = answer["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        with contextlib.suppress(OSError, IndexError, ValueError):
            # Linux: the counter above holds what the parent of this process had when it was started.
            answer["peak"] = int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 2**10
        # For the same reason only what is above our own peak is a helper's.
        child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit
        answer["child"] = child if child > own * 1.01 else None
    if device.startswith("cuda"):
        answer["peak"] = torch.cuda.max_memory_allocated() / 2**20
        answer["reserved"] = torch.cuda.max_memory_reserved() / 2**20
    return answer


# ================================================================ child: its work


class Clock:
    """Adds up where the time goes, by category."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def add(self, category: str, seconds: float) -> None:
        """Add seconds to a category."""
        self.spent[category] = self.spent.get(category, 0.0) + seconds

    @contextlib.contextmanager
    def of(self, category: str) -> Iterator[None]:
        """Time a ``with`` block."""
        start = timer()
        try:
            yield
        finally:
            self.add(category, timer() - start)


class Events:
    """Tells the parent, in a file, what this process does now: it may not live to say so afterwards."""

    def __init__(self, path: str) -> None:
        self.file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - open as long as this process lives
        self.variant, self.phase = "", "start"

    def at(self, phase: str, variant: str = "") -> None:
        """Note the phase that begins."""
        self.phase, self.variant = phase, variant or self.variant
        # In place and of one length: it is written between blocks, so it must cost next to nothing.
        self.file.seek(0)
        self.file.write(f"{self.phase}\n{self.variant}\n".encode().ljust(512))


def time_block(cycle: Callable[[], Any], number: int) -> float:
    """Return the mean time of a cycle over ``number`` of them, in seconds.

    This is what torch.utils.benchmark.Timer does (timeit with a clock that synchronises the accelerator at both
    ends, garbage collection off), less its two warm-up calls a block, which would cost a slow model most of its time.
    """
    return timeit.Timer("cycle()", globals={"cycle": cycle}, timer=timer).timeit(number) / number


def time_steps(cycle: Callable[[], Any], step_s: float, block_s: float, parts: int = 1) -> float:
    """Return the time of a cycle over a block that lasts about ``block_s``; short steps are warmed up first.

    The block is the median of its parts, so that a short interruption spoils one part only. An accelerator has to be
    waited for at the end of each part: there, take one.
    """
    number = max(1, math.ceil(block_s / max(step_s, 1e-9)))
    if number > 1:
        cycle()
    parts = min(parts, number)
    return statistics.median(time_block(cycle, math.ceil(number / parts)) for _ in range(parts))


@dataclass
class Compiled:
    """A variant that ran: its callable, what is timed, and seconds of first call, compile and a steady cycle."""

    call: Callable[..., Any]
    cycle: Callable[[], Any]
    first_s: float
    compile_s: float
    cycle_s: float
    faults: float | None  # page faults a cycle


def page_faults() -> int | None:
    """Return the page faults of this process so far that needed no disk, or None where the system does not count."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def compile_and_settle(
    workload: Workload,
    variant: Variant,
    model: torch.nn.Module,
    batches: Sequence[Inputs],
    clock: Clock,
    events: Events,
) -> Compiled:
    """Compile one variant, call it until it is steady, and time that."""
    events.at("torch.compile" if variant.kind in ("backend", "custom") else "model", variant.label)
    start = timer()
    call = prepare(variant, model, workload.settings)
    cycle = workload.cycle(call, model, batches)
    if dynamo := sys.modules.get("torch._dynamo.utils"):
        dynamo.set_compilation_metrics_limit(4096)  # it would keep the last 64
    events.at("first call")
    cycle()
    first_s = timer() - start
    for _ in range(SETTLING - 1):
        cycle()
    settled_s = timer() - start
    events.at("step")
    again = timer()
    cycle_s, number = time_block(cycle, 1), 1
    before = page_faults()
    if cycle_s < STEADY_S:
        number = math.ceil(STEADY_S / 2 / cycle_s)
        before = page_faults()
        cycle_s = time_block(cycle, number)
    else:
        cycle()
    after = page_faults()
    faults = None if before is None or after is None else (after - before) / number
    compile_s = 0.0 if variant.kind == "plain" else max(0.0, settled_s - SETTLING * cycle_s)
    clock.add("compile", compile_s)
    clock.add("step", settled_s - compile_s + timer() - again)
    return Compiled(call, cycle, first_s, compile_s, cycle_s, faults)


def child_alone(job: dict[str, Any], clock: Clock, events: Events) -> dict[str, Any]:
    """Compile one variant in this fresh process: times, memory, a look inside, and whether it is right."""
    settings, variant, plain = Settings(**job["settings"]), Variant(**job["variant"]), job["plain"]
    workload = Workload(settings)
    cuda = workload.device.startswith("cuda")
    with clock.of("model"):
        events.at("model", variant.label)
        model, batches = workload.build()
    with workload.gradients():
        # Once uncompiled, so that no back end pays for the start-up of the maths libraries.
        with clock.of("step"):
            events.at("model")
            workload.cycle(model, model, batches)()
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        compilers = Compilers()
        with compilers.watched():
            done = compile_and_settle(workload, variant, model, batches, clock, events)
        with clock.of("check"):
            memory, inside, phases = peak_memory(workload.device), captured(), compile_phases(compilers.busy_s)
            if phases and not (variant.target == "inductor" or OPERATOR_BY_OPERATOR.fullmatch(variant.target)):
                phases = {"dynamo": phases["dynamo"]}  # torch times a foreign back end as a whole, as AOTAutograd's
            events.at("look inside")
            operators, replays = operators_of(done.cycle, cuda)
    with clock.of("check"):
        events.at("check")
        if variant.kind == "plain":
            plain = check_plain(workload)
            right = {key: plain[key] for key in ("error", "tolerance", "reference")}
        else:
            try:
                right = check_variant(workload, variant, done.call, model, plain)
            except torch.OutOfMemoryError:
                right = {
                    "error": None,
                    "tolerance": plain["tolerance"],
                    "reference": f"{NOT_COMPARABLE}: no memory left",
                }
            error = right["error"]
            right["error"] = error if error is None or math.isfinite(error) else -1.0  # JSON has no infinity
    return {
        "first_s": done.first_s, "compile_s": done.compile_s, "faults": done.faults, "memory": memory,
        "inside": inside, "phases": phases, "operators": operators, "replays": replays, "right": right,
        "plain": plain, "environment": environment(workload.device),
    }  # fmt: skip


def child_together(job: dict[str, Any], clock: Clock, events: Events) -> dict[str, Any]:
    """Time variants interleaved, each with its own copy of the module; the first compiled one gives a warm compile."""
    settings, order = Settings(**job["settings"]), random.Random(job["seed"])
    variants = {v["label"]: Variant(**v) for v in job["variants"]}
    workload = Workload(settings)
    with clock.of("model"):
        events.at("model", next(iter(variants)))
        base, batches = workload.build()
        models = {label: own_copy(workload, base) for label in variants}
    plain = [label for label, variant in variants.items() if variant.kind == "plain"]
    compiled = [label for label in variants if label not in plain]
    order.shuffle(plain)
    order.shuffle(compiled)
    compiled.sort(key=lambda label: label != job["first"])
    ready: dict[str, Compiled] = {}
    failed: dict[str, dict[str, str]] = {}
    with workload.gradients():
        with clock.of("step"):
            workload.cycle(base, base, batches)()
        for label in plain + compiled:
            try:
                ready[label] = compile_and_settle(workload, variants[label], models[label], batches, clock, events)
            except Exception as error:
                failed[label] = describe_failure(error, events.phase)
                break  # the parent starts again without it: a broken CUDA context would take the others down too
        del base
        gc.collect()
        stop_compile_workers()
        graphs, before = captured()["graphs"], machine_state()
        blocks = {} if failed else rounds_of(ready, failed, settings, order, job["seconds"], clock, events)
        others = others_at_work(before, machine_state()) if blocks else None
    first = ready.get(compiled[0]) if compiled else None
    return {
        "blocks": blocks, "failed": failed, "first": compiled[0] if first else None,
        "warm_s": first.compile_s if first else None, "late_graphs": captured()["graphs"] - graphs,
        "others": others,
    }  # fmt: skip


def rounds_of(
    ready: dict[str, Compiled],
    failed: dict[str, dict[str, str]],
    settings: Settings,
    order: random.Random,
    seconds: float,
    clock: Clock,
    events: Events,
) -> dict[str, list[float]]:
    """Return block means (seconds a step) of each variant, in rounds of new order, for about ``seconds`` each.

    A variant that raises is put into ``failed``, and nothing is returned: it may have spoilt the others.
    """
    calls = max(1, len(settings.batches))
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    block_s, parts = settings.block_ms / 1e3, PARTS if device.startswith("cpu") else 1
    blocks: dict[str, list[float]] = {label: [] for label in ready}
    # Steps of seconds: five rounds of them would be far more than was asked for.
    slow = max((one.cycle_s for one in ready.values()), default=0.0) * MIN_ROUNDS > 2 * seconds
    gc.freeze()  # what the compilers left behind is not looked through again between blocks
    start = timer()
    rounds = 0
    while rounds < (2 if slow else MIN_ROUNDS) or timer() - start < seconds * len(ready):
        for label in order.sample(list(ready), k=len(ready)):
            events.at("timing", label)
            try:
                blocks[label].append(time_steps(ready[label].cycle, ready[label].cycle_s, block_s, parts) / calls)
            except Exception as error:
                failed[label] = describe_failure(error, "timing")
                clock.add("step", timer() - start)
                return {}
        rounds += 1
    clock.add("step", timer() - start)
    return blocks


def stop_compile_workers() -> None:
    """End Inductor's idle helper processes: their start-up would run beside the first rounds."""
    module = sys.modules.get("torch._inductor.async_compile")
    if module is not None:
        with contextlib.suppress(Exception):
            module.shutdown_compile_workers()


CHILDREN: dict[str, Callable[[dict[str, Any], Clock, Events], dict[str, Any]]] = {
    "alone": child_alone,
    "together": child_together,
}


OUT_OF_MEMORY = re.compile(r"can't allocate memory|CUDA error: out of memory")
#: Import errors for which no package is to blame.
NOT_A_PACKAGE = re.compile(r"attempted relative import|cannot import name")
NO_PARENT = "attempted relative import with no known parent package"
COMPILE_ERRORS = {"BackendCompilerFailed", "InductorError", "Unsupported", "CppCompileError"}


def place_of(error: BaseException) -> str | None:
    """Return ``file.py:line`` of the innermost frame of an exception that lies in a file of the user's.

    Where there is none, of the innermost one in an installed package; never in torch, Python's library or this file.
    A SyntaxError tells its place itself.
    """
    if isinstance(error, SyntaxError):
        return None
    foreign = [__file__, str(Path(torch.__file__).parent)]
    # Code that a back end wrote is not the user's.
    foreign += [os.environ[name] for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if name in os.environ]
    resolved, library = [Path(place).resolve() for place in foreign], Path(sysconfig.get_path("stdlib")).resolve()
    own, installed = None, None
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename).resolve()
        if frame.filename.startswith("<") or any(path.is_relative_to(place) for place in resolved):
            continue
        if {"site-packages", "dist-packages"} & set(path.parts):
            installed = f"{path.name}:{frame.lineno}"
        elif not path.is_relative_to(library):
            own = f"{path.name}:{frame.lineno}"
    return own or installed


def describe_failure(error: BaseException, phase: str) -> dict[str, str]:
    """Return kind, phase and short reason of an exception."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = getattr(current, "inner_exception", None) or current.__cause__
    frames = [frame for link in chain for frame in traceback.extract_tb(link.__traceback__)]
    places = [(frame.filename.replace("\\", "/"), frame.name) for frame in frames]
    if phase == "first call" and any(
        file.endswith("autograd/graph.py") or (file.endswith("torch/_tensor.py") and name == "backward")
        for file, name in places
    ):
        phase = "backward"
    names = {type(link).__name__ for link in chain}
    text = " ".join(str(link) for link in chain)
    inner = getattr(error, "inner_exception", None) or error
    if names & {"InvalidBackend", "UnknownBackEnd"}:
        kind = "unknown back end"
    elif "InvalidCxxCompiler" in names:
        kind = "missing compiler"
    elif "OutOfMemoryError" in names or "MemoryError" in names or OUT_OF_MEMORY.search(text):
        kind = "out of memory"
    elif "no output requires a gradient" in text:
        kind, phase = "gradients lost", "backward"
    elif names & {"ImportError", "ModuleNotFoundError"} and not NOT_A_PACKAGE.search(text):
        kind = "missing package"
    elif phase == "torch.compile" or names & COMPILE_ERRORS:
        kind = "compile error"
    else:
        kind = "error"
    note = f"{type(inner).__name__}: {first_line(str(inner))}".removesuffix(": ")
    if isinstance(inner, NothingToCompare):
        note = str(inner)
    if place := place_of(inner):
        note += f" ({place})"
    if NO_PARENT in str(inner):
        note += "; a file that is loaded by its path has no package: use package.module:factory instead"
    return {"kind": kind, "phase": phase, "note": note}


def die_with_parent() -> None:
    """End this process and its helpers when the parent is gone: its end of our standard input closes then."""

    def watch() -> None:
        sys.stdin.buffer.read()
        with contextlib.suppress(AttributeError, OSError):
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def child_main(path: str) -> None:
    """Do one job of the parent in this process and write the answer, or what went wrong, beside it."""
    clock = Clock()
    job = json.loads(Path(path).read_text())
    clock.add("start", time.monotonic() - job["spawned"])
    die_with_parent()
    events = Events(job["events"])
    # As for any script of the user: modules are found from the folder where the command was given.
    sys.path[0] = str(Path.cwd())
    sys.path += [place for place in job["sys_path"] if place not in sys.path]
    answer: dict[str, Any]
    try:
        if job["settings"]["threads"]:
            torch.set_num_threads(job["settings"]["threads"])
        answer = {"ok": CHILDREN[job["task"]](job, clock, events)}
    except UsageError as error:
        answer = {"usage": str(error)}
    except SystemExit as error:
        note = (
            f"SystemExit({error.code!r}): what is imported calls sys.exit(), as argparse does; guard it with __name__"
        )
        if place := place_of(error):
            note += f" ({place})"
        answer = {"failed": {"kind": "error", "phase": events.phase, "note": note}}
    except Exception as error:
        traceback.print_exc()
        answer = {"failed": describe_failure(error, events.phase)}
    answer["clock"] = clock.spent
    target = Path(job["answer"])
    target.with_suffix(".tmp").write_text(json.dumps(answer))
    target.with_suffix(".tmp").replace(target)
    sys.stdout.flush()
    sys.stderr.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


def environment(device: str) -> dict[str, Any]:
    """Return versions, device and threads, as this process sees them."""
    triton = importlib.util.find_spec("triton")
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__ if triton else None,
        "cuda": torch.version.cuda,
        "device": device,
        "device_name": torch.cuda.get_device_name() if device.startswith("cuda") else cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "os": platform.platform(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "env": {k: v for k, v in os.environ.items() if k.startswith(("OMP_", "MKL_", "TORCHINDUCTOR_", "TORCH_"))
                and not k.endswith(("_DIR", "TOKEN"))},
    }  # fmt: skip


def cpu_name() -> str:
    """Return the processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# ================================================================ parent: processes


class Lost(Exception):
    """A child that gave no answer; ``kind`` is "crash" or "hang"."""

    def __init__(self, kind: str, phase: str, variant: str, note: str, log: str = "") -> None:
        super().__init__(note)
        self.failure = {"kind": kind, "phase": phase, "note": note}
        self.variant, self.log = variant, log


class Kitchen:
    """Starts the child processes of one comparison; all of them share one cache folder, emptied for cold ones."""

    def __init__(self, folder: Path, settings: Settings, clock: Clock) -> None:
        self.folder, self.settings, self.clock = folder, settings, clock
        self.cache, self.jobs = folder / "cache", 0
        self.kept: list[Path] = []

    def keep_cache(self) -> None:
        """Put the cache aside, so that the next child starts cold."""
        if self.cache.exists():
            self.kept.append(self.folder / f"kept-{len(self.kept)}")
            self.cache.rename(self.kept[-1])

    def merge_caches(self) -> None:
        """Put all caches back into one. They were filled under this path: an absolute path in them still holds."""
        self.keep_cache()
        for source in self.kept:
            for root, _, names in os.walk(source):
                target = self.cache / Path(root).relative_to(source)
                target.mkdir(parents=True, exist_ok=True)
                for name in names:
                    if not (target / name).exists():
                        Path(root, name).rename(target / name)
            shutil.rmtree(source, ignore_errors=True)
        self.kept = []

    def run(self, task: str, limit_s: float, **more: Any) -> dict[str, Any]:
        """Run one job in a fresh process; returns its answer, raises Lost where it gives none."""
        self.jobs += 1
        place = self.folder / f"job-{self.jobs}"
        place.mkdir()
        caches = {
            "TMPDIR": self.cache / "tmp",
            "TORCHINDUCTOR_CACHE_DIR": self.cache / "inductor",
            "TRITON_CACHE_DIR": self.cache / "triton",
        }
        for path in caches.values():
            path.mkdir(parents=True, exist_ok=True)
        environ = os.environ | {name: str(path) for name, path in caches.items()} | {CHILD_MARK: "1"}
        if (self.settings.device or "").startswith("cpu"):
            # Else each process would wait for an accelerator that it does not use, and hold memory for it.
            environ |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        if self.settings.threads:
            environ["OMP_NUM_THREADS"] = str(self.settings.threads)
        if self.settings.keep_memory:
            environ |= KEEP_MEMORY
        files = {name: str(place / name) for name in ("answer", "events")}
        job = {"task": task, "settings": asdict(self.settings), "spawned": time.monotonic(), "sys_path": sys.path}
        job |= files | more
        (place / "job.json").write_text(json.dumps(job))
        code = self.wait([sys.executable, __file__, "--child", str(place / "job.json")], environ, place, limit_s)
        answer = Path(files["answer"])
        if code == 0 and answer.exists():
            found: dict[str, Any] = json.loads(answer.read_text())
            for category, spent in found.pop("clock").items():
                self.clock.add(category, spent)
            if "usage" in found:
                raise UsageError(found["usage"])
            found["log"] = (place / "log").read_text(errors="replace")
            return found
        raise self.lost(code, place, limit_s)

    def wait(self, command: list[str], environ: dict[str, str], place: Path, limit_s: float) -> int | None:
        """Run a command to its end; returns the exit code, or None where it took longer than ``limit_s``.

        Output goes to a file: a helper that outlives a killed child can't hold a pipe open. Standard input is a pipe
        that only we hold, so that the child notices when we are gone.
        """
        with (place / "log").open("w") as log:
            process = subprocess.Popen(
                command, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(AttributeError, OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()
                assert process.stdin is not None
                process.stdin.close()

    def lost(self, code: int | None, place: Path, limit_s: float) -> Lost:
        """Return what is known of a child without an answer."""
        phase, variant = "start", ""
        with contextlib.suppress(OSError, ValueError):
            phase, variant = (place / "events").read_text().split("\n")[:2]
        log = (place / "log").read_text(errors="replace")
        if code is None:
            return Lost("hang", phase, variant, f"no answer within {limit_s:g} s", log)
        if code < 0:
            name = signal.Signals(-code).name
            hint = " (often the system's answer to a lack of memory)" if name == "SIGKILL" else ""
            return Lost("crash", phase, variant, f"the process died of {name}{hint}", log)
        last = ([line for line in log.splitlines() if line.strip()] or ["no output"])[-1]
        return Lost("crash", phase, variant, f"the process ended with code {code}: {last.strip()[:200]}", log)


# ================================================================ parent: statistics


#: Student's t for a two-sided interval, by degrees of freedom.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
T99 = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
       2.921, 2.898, 2.878, 2.861, 2.845)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """A logarithm of a ratio with its bounds; they are infinite where one process says nothing about others."""

    center: float
    low: float
    high: float

    @property
    def ratios(self) -> tuple[float, float | None, float | None]:
        """Centre, low and high as ratios; an infinite bound is None."""
        low, high = (math.exp(v) if math.isfinite(v) else None for v in (self.low, self.high))
        return math.exp(self.center), low, high


def student(values: Sequence[float], floor: float = 0.0, table: Sequence[float] = T95) -> Interval:
    """Return mean and interval of independent values; their variance is taken as at least ``floor``."""
    center = statistics.fmean(values)
    if len(values) < 2:
        return Interval(center, -math.inf, math.inf)
    variance = max(statistics.variance(values), floor)
    half = table[min(len(values) - 2, len(table) - 1)] * math.sqrt(variance / len(values))
    return Interval(center, center - half, center + half)


Blocks = dict[str, list[float]]


def log_ratio(run: Blocks, variant: str, paired: bool) -> float:
    """Return the median over the rounds of a process of log(eager / variant); eager is the mean of its two copies."""
    if variant == AGAIN:
        top = [math.log(v) for v in run["eager"]]
    else:
        top = [(math.log(a) + math.log(b)) / 2 for a, b in zip(run["eager"], run[AGAIN], strict=paired)]
    bottom = [math.log(v) for v in run[variant]]
    if paired:
        return statistics.median(a - b for a, b in zip(top, bottom, strict=True))
    return statistics.median(top) - statistics.median(bottom)


@dataclass(frozen=True)
class Judgement:
    """What the runs so far say of one variant."""

    interval: Interval
    verdict: str | None
    resolved: bool  # the verdict would not change with more processes: a difference, or an interval inside the margin
    clear: bool  # so at 99 %


def judge(runs: Sequence[Blocks], variant: str, margin: float, paired: bool = True) -> Judgement:
    """Return interval and verdict of a variant over processes (rules: module docstring)."""
    again = [log_ratio(run, AGAIN, paired) for run in runs]
    values = [log_ratio(run, variant, paired) for run in runs]
    # The variance of (a - b) for two copies is 2 s^2, of ((a + b) / 2 - v) 1.5 s^2: three quarters of it.
    floor = 0.0 if variant == AGAIN or len(runs) < 2 else 0.75 * statistics.variance(again)
    wide, interval = student(values, floor, T99), student(values, floor)
    if len(runs) < 2:
        return Judgement(interval, None, False, False)
    least = math.log1p(margin)
    noise = least if variant == AGAIN else max(least, abs(statistics.fmean(again)))
    differs = not interval.low <= 0 <= interval.high and abs(interval.center) > noise
    verdict = ("faster" if interval.center > 0 else "slower") if differs else "no difference"
    inside = -noise < interval.low and interval.high < noise
    clear = wide.low > noise or wide.high < -noise or (-noise < wide.low and wide.high < noise)
    return Judgement(interval, verdict, differs or inside, clear)


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median, upper quartile."""
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return q1, median, q3


# ================================================================ parent: the sum


def break_even(compile_s: float, saved_us: float | None) -> int | None:
    """Return the number of steps from which on compiling pays, or None where nothing is saved."""
    if saved_us is None or saved_us <= 0:
        return None
    return math.ceil(compile_s / (saved_us * 1e-6))


def saved_by(eager_us: float, ratio: float | None) -> float | None:
    """Return microseconds that a step saves at this speed-up."""
    return None if ratio is None else eager_us * (1 - 1 / ratio)


def compile_bounds(row: Row, start: str) -> tuple[float, float]:
    """Return least and greatest compile time in seconds; one sample alone is given a spread."""
    low_s, high_s = getattr(row, f"compile_{start}_low_s"), getattr(row, f"compile_{start}_high_s")
    if low_s == high_s:
        low_s, high_s = low_s * (1 - SINGLE_COMPILE_SPREAD), high_s * (1 + SINGLE_COMPILE_SPREAD)
    return low_s, high_s


def add_sums(rows: Sequence[Row], steps: int) -> None:
    """Put totals, payoff and break-even into the rows that have times.

    The step of a variant is taken as eager's over the paired ratio: drift between processes cancels there.
    """
    eager = rows[0] if rows else None  # none where it was interrupted before
    if eager is None or eager.step_us is None:
        return
    for row in rows:
        row.steps = steps
        if row.step_us is None or row.speedup_ratio is None:
            continue
        row.saved_us = saved_by(eager.step_us, row.speedup_ratio)
        for start in ("cold", "warm"):
            compile_s = getattr(row, f"compile_{start}_s")
            if compile_s is None or row.saved_us is None:
                continue
            setattr(row, f"total_{start}_s", compile_s + steps * (eager.step_us - row.saved_us) * 1e-6)
            if row.variant in ("eager", AGAIN):
                continue
            if compile_s > 0:
                setattr(row, f"payoff_{start}_r", row.saved_us * 1e-6 * steps / compile_s)
            if row.verdict == "no difference":
                setattr(row, f"payoff_{start}_r", None)  # noise times N is no payoff
            if row.verdict == "faster":
                least, greatest = compile_bounds(row, start)
                low = break_even(least, saved_by(eager.step_us, row.speedup_high))
                high = break_even(greatest, saved_by(eager.step_us, row.speedup_low))
                setattr(row, f"break_even_{start}", break_even(compile_s, row.saved_us))
                setattr(row, f"break_even_{start}_low", low)
                setattr(row, f"break_even_{start}_high", high)
        if row.variant not in ("eager", AGAIN) and row.verdict in ("slower", "no difference"):
            row.break_even_text = "never"


@dataclass(frozen=True)
class Total:
    """Total time of a row in seconds with what may be off."""

    row: Row
    compile_s: float
    center: float
    low: float
    high: float


def total_of(row: Row, eager: Row, start: str) -> Total | None:
    """Return the total of a row that may be picked, else None: not ok, not its named back end, no verdict."""
    compile_s = getattr(row, f"compile_{start}_s")
    if row.status != "ok" or compile_s is None or row.step_us is None or (row.ran or "yes").startswith("no"):
        return None
    assert eager.step_us is not None
    work_s = row.steps * eager.step_us * 1e-6
    if row is eager:
        return Total(row, 0.0, work_s, work_s, work_s)
    if row.verdict != "faster" or row.speedup_ratio is None or not row.speedup_low or not row.speedup_high:
        return None
    low_s, high_s = compile_bounds(row, start)
    return Total(
        row,
        compile_s,
        compile_s + work_s / row.speedup_ratio,
        low_s + work_s / row.speedup_high,
        high_s + work_s / row.speedup_low,
    )


def pick(rows: Sequence[Row], start: str) -> tuple[Row | None, str]:
    """Return the row to take for a "cold" or "warm" start, and why in one sentence."""
    eager = next((row for row in rows if row.variant == "eager"), None)
    if eager is None or eager.step_us is None:
        return None, "Nothing to pick: the plain model was not timed."
    found = [total for row in rows if row.variant != AGAIN if (total := total_of(row, eager, start))]
    best = min(found, key=lambda total: total.center)
    # Simplest first: eager, then the least compile time.
    chosen = next(t for t in sorted(found, key=lambda t: t.compile_s) if t is best or t.low <= best.high)
    if chosen.row is eager and best is eager_total(found, eager):
        return eager, why_eager(rows, start)
    if chosen.row is eager:
        return eager, (
            f"eager: {best.row.variant} would take {seconds(best.center)} in all, eager {seconds(chosen.center)}; "
            "that is too close to call, and eager is simpler."
        )
    row, plain = chosen.row, eager_total(found, eager)
    n_star = getattr(row, f"break_even_{start}")
    text = f"{row.variant}: {seconds(chosen.center)} in all, eager {seconds(plain.center)}"
    if n_star is not None:
        text += f"; its {seconds(chosen.compile_s)} of compiling pay from {n_star:,} steps on"
    if chosen is not best:
        text += f" ({best.row.variant} is too close to call and compiles longer)"
    return row, f"{text}."


def eager_total(found: Sequence[Total], eager: Row) -> Total:
    """Return eager's total."""
    return next(total for total in found if total.row is eager)


def why_eager(rows: Sequence[Row], start: str) -> str:
    """Return why no compiled variant is taken."""
    timed = [row for row in rows if row.status == "ok" and row.step_us is not None and row.variant != "eager"]
    if any(row.verdict is None for row in timed):
        return "eager: too little was measured to call anything faster."
    faster = [row for row in rows if row.verdict == "faster" and getattr(row, f"break_even_{start}") is not None]
    faster = [row for row in faster if row.status == "ok" and not (row.ran or "yes").startswith("no")]
    if not faster:
        return "eager: no compiled variant is measurably faster."
    soonest = min(faster, key=lambda row: getattr(row, f"break_even_{start}"))
    return (
        f"eager: {soonest.variant} is {soonest.speedup_ratio:.2f} times as fast, but its "
        f"{seconds(getattr(soonest, f'compile_{start}_s'))} of compiling pay only from "
        f"{getattr(soonest, f'break_even_{start}'):,} steps on."
    )


# ================================================================ parent: the comparison


Progress = Callable[[str], None]


class Comparison:
    """One run: alone, together, the sum. ``report`` is complete at any moment, so Ctrl-C loses nothing."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.report = Report(settings)
        self.clock = Clock()
        self.variants: dict[str, Variant] = {}
        self.rows: dict[str, Row] = {}
        self.plain: dict[str, Any] = {}
        self.plain_operators: dict[str, int] = {}
        self.runs: list[Blocks] = []
        self.others: list[float] = []

    def run(self, began: float) -> Report:
        """Measure; UsageError for what cannot be meant."""
        self.clock.add("start", time.monotonic() - began)
        before = machine_state()
        threads, cores = self.settings.threads or torch.get_num_threads(), usable_cores()
        if threads > cores:
            self.warn(f"{threads} threads on {cores} core(s): they have to take turns")
            self.progress(f"note: {self.report.warnings[-1]}")
        interrupts = signal.getsignal(signal.SIGINT)
        with tempfile.TemporaryDirectory(prefix="compare-backends-", ignore_cleanup_errors=True) as name:
            kitchen = Kitchen(Path(name), self.settings, self.clock)
            try:
                self.alone(kitchen)
                if self.rows["eager"].status == "ok":
                    self.together(kitchen)
            except KeyboardInterrupt:
                with contextlib.suppress(ValueError):  # not the main thread
                    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would lose what there is
                self.report.interrupted = True
                self.report.warnings.append("interrupted: the rows hold what was measured until then")
            self.finish(before)
        if self.report.interrupted:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, interrupts)
        self.account(time.monotonic() - began)
        return self.report

    # ---- alone

    def alone(self, kitchen: Kitchen) -> None:
        """Compile each variant in a fresh process with an empty cache; eager first, the checks need it."""
        device = self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        for variant in parse_variants(self.settings.variants, self.settings, device):
            self.variants[variant.label] = variant
            self.rows[variant.label] = Row(
                variant.label, variant.written, name_of(self.settings.model), workload=self.settings.mode, device=device
            )
        self.report.rows = list(self.rows.values())
        for row in self.report.rows:
            row.steps = self.settings.steps
            row.fail("not measured", "its turn did not come")
        for label, variant in self.variants.items():
            if label == AGAIN:
                continue
            repeats = 1 if variant.kind == "plain" else self.settings.cold_repeats
            for number in range(repeats):
                if number and self.rows[label].status != "ok":
                    break
                self.compile_alone(kitchen, variant)
            if label == "eager" and self.rows[label].status != "ok":
                what = "could not be checked" if self.rows[label].phase == "check" else "does not run"
                for row in self.report.rows[1:]:
                    row.fail("not measured", f"the plain model {what}")
                return
        again, eager = self.rows[AGAIN], self.rows["eager"]
        again.status, again.note = "ok", "the A/A pair: the same as eager, to show the noise"
        again.compile_cold_s = again.compile_warm_s = 0.0
        again.max_rel_error, again.tolerance, again.reference = eager.max_rel_error, eager.tolerance, eager.reference
        kitchen.merge_caches()

    def compile_alone(self, kitchen: Kitchen, variant: Variant) -> None:
        """Compile one variant alone and put what comes of it into its row."""
        row = self.rows[variant.label]
        self.progress(f"{variant.label}: alone in a fresh process, cold")
        try:
            answer = kitchen.run("alone", self.settings.timeout, variant=asdict(variant), plain=self.plain)
        except Lost as lost:
            answer = {"failed": lost.failure, "log": lost.log}
        kitchen.keep_cache()
        if failure := answer.get("failed"):
            if variant.kind == "plain" and failure["kind"] == "gradients lost":
                failure |= {"kind": "error", "note": "no output of the model requires a gradient: it cannot be trained"}
            row.log = answer["log"][-LOG_KEPT:]
            row.fail("failed", failure["note"], failure["kind"], failure["phase"])
            self.progress(f"{variant.label}: {failure['kind']} ({failure['phase']}): {failure['note']}")
            return
        found = answer["ok"]
        if variant.kind == "plain" and not self.plain:
            self.plain, self.plain_operators = found["plain"], found["operators"] or {}
            self.report.environment = found["environment"]
        self.fill_alone(row, variant, found, answer["log"])

    def fill_alone(self, row: Row, variant: Variant, found: dict[str, Any], log: str) -> None:
        """Put a child's answer into a row."""
        row.status, row.note = "ok", None
        row.device, row.threads = self.report.environment["device"], self.report.environment["threads"]
        right = found["right"]
        row.max_rel_error, row.tolerance, row.reference = right["error"], right["tolerance"], right["reference"]
        row.first_call_s = row.first_call_s or found["first_s"]
        set_compile(row, "cold", [*row.samples_compile_cold_s, found["compile_s"]])
        if variant.kind == "plain":
            set_compile(row, "warm", [0.0])
        row.peak_mib, row.peak_reserved_mib = found["memory"]["peak"], found["memory"]["reserved"]
        row.peak_child_mib = found["memory"]["child"]
        if found["faults"] is not None:
            row.page_faults = found["faults"] / max(1, len(self.settings.batches))
        if phases := found["phases"]:
            for name, value in phases.items():
                setattr(row, f"compile_{name}_s", value)
            row.compile_rest_s = max(0.0, found["compile_s"] - sum(phases.values()))
        self.look_inside(row, variant, found, log)
        if right["error"] is not None and not 0 <= right["error"] <= right["tolerance"]:
            error = "not finite, or a tensor is missing or of another shape"
            if right["error"] < 0:
                row.max_rel_error = None
            else:
                error = f"{right['error']:.2g}"
            note = f"relative error {error}; allowed is {right['tolerance']:.2g} (reference: {right['reference']})"
            row.fail("wrong", note, "wrong", "check")
        self.progress(f"{variant.label}: {row.status}, compile {seconds(row.compile_cold_s)}")

    def look_inside(self, row: Row, variant: Variant, found: dict[str, Any], log: str) -> None:
        """Put graphs, breaks, recompiles and what really ran into a row."""
        inside = found["inside"]
        sizes = max(1, len(self.settings.batches))
        row.operators = None if found["operators"] is None else round(sum(found["operators"].values()) / sizes)
        if variant.kind == "plain":
            return
        row.graphs, row.graph_breaks = inside["graphs"], len(inside["breaks"])
        row.recompiles = len(inside["recompiles"])
        row.breaks = "; ".join(inside["breaks"]) or None
        row.recompile_reasons = "; ".join(inside["recompiles"]) or None
        row.ran = self.really_ran(variant, found)
        if variant.wants_cuda_graphs:
            row.cuda_graphs = cuda_graphs_of(row.device or "cpu", inside.get("graph_skips", 0), found["replays"], sizes)
        notes = [text for pattern, text in LOG_NOTES if re.search(pattern, log)]
        row.note = "; ".join(notes) or None

    def really_ran(self, variant: Variant, found: dict[str, Any]) -> str:
        """Return "yes", or "no" with the reason: a silent fall-back gives right results and says nothing."""
        same = found["operators"] and work_of(found["operators"]) == work_of(self.plain_operators)
        unchanged = "yes, but it replaced no operator: every one of them runs as in eager"
        if variant.kind == "wrap":
            return unchanged if same else "yes"
        if found["inside"]["graphs"] == 0:
            return "no: Dynamo captured no graph, the model ran as it is"
        if variant.target == "cudagraphs" and variant.kind == "backend":
            device, skips = self.report.environment["device"], found["inside"]["graph_skips"]
            reason = cuda_graphs_of(device, skips, found["replays"])
            return reason if reason.startswith("no") else "yes"
        if variant.kind == "backend" and OPERATOR_BY_OPERATOR.fullmatch(variant.target):
            return "yes"
        if same and variant.kind == "backend" and variant.target == "inductor":
            return unchanged
        return "no: fell back, every operator runs as in eager" if same else "yes"

    # ---- together

    def together(self, kitchen: Kitchen) -> None:
        """Time what lived, in several fresh processes on the warm cache, until it is clear."""
        least = min(LEAST_PROCESSES, self.settings.processes)
        number = 0
        while number < self.settings.processes and (living := self.living()):
            compiled = [label for label in living if self.variants[label].kind != "plain"]
            first = compiled[number % len(compiled)] if compiled else None
            if not self.one_process(kitchen, living, first, number):
                number = len(self.runs)
                continue
            number += 1
            self.progress(f"process {number} of {least} to {self.settings.processes}: {self.standing()}")
            if number >= least and self.all_clear():
                break
        for label in self.living():
            row = self.rows[label]
            if self.variants[label].kind != "plain" and not row.samples_compile_warm_s and self.runs:
                self.compile_warm(kitchen, label)

    def living(self) -> list[str]:
        """The variants that are still in the race."""
        return [label for label, row in self.rows.items() if row.status == "ok"]

    def one_process(self, kitchen: Kitchen, living: list[str], first: str | None, number: int) -> bool:
        """Time the living once; False where one of them fell out or the way of timing changed."""
        groups = [living]
        if self.settings.isolated:
            groups = [[label] for label in random.Random(number).sample(living, len(living))]
        blocks: Blocks = {}
        for group in groups:
            limit = (self.settings.timeout + 3 * self.settings.seconds) * len(group)
            compiled = [label for label in group if self.variants[label].kind != "plain"]
            more = {
                "variants": [asdict(self.variants[label]) for label in group],
                "first": first if first in group else next(iter(compiled), None),
                "seed": self.settings.seed + number,
                "seconds": self.settings.seconds / self.settings.processes,
            }
            try:
                answer = kitchen.run("together", limit, **more)
            except Lost as lost:
                return self.after_a_loss(lost, group)
            if failure := answer.get("failed"):
                if failure["kind"] == "out of memory" and len(group) > 1:
                    return self.isolate(failure["note"])
                # What raises here is not a variant's own doing: the model could not be built or run.
                return self.drop("eager" if len(group) > 1 else group[0], failure)
            found = answer["ok"]
            if found["failed"]:
                if any(f["kind"] == "out of memory" for f in found["failed"].values()) and len(group) > 1:
                    return self.isolate("out of memory")
                for label, failure in found["failed"].items():
                    self.drop(label, failure)
                return False
            blocks |= found["blocks"]
            if found["first"] is not None:
                row = self.rows[found["first"]]
                set_compile(row, "warm", [*row.samples_compile_warm_s, found["warm_s"]])
            if found["others"] is not None:
                self.others.append(found["others"])
            if found["late_graphs"]:
                self.warn(f"{found['late_graphs']} graph(s) were compiled while steps were timed")
        self.runs.append(blocks)
        self.fill_steps()
        return True

    def after_a_loss(self, lost: Lost, group: list[str]) -> bool:
        """A shared process died: the one at work falls out, or all move apart where memory may be the reason."""
        if "SIGKILL" in lost.failure["note"] and len(group) > 1:
            return self.isolate(lost.failure["note"])
        return self.drop(lost.variant if lost.variant in group else group[-1], lost.failure | {"phase": "timing"})

    def isolate(self, reason: str) -> bool:
        """Go on with a process for each variant: together they do not fit."""
        self.settings.isolated = True
        self.runs.clear()
        self.warn(f"together the variants do not fit ({reason}): each is timed in a process of its own")
        return False

    def drop(self, label: str, failure: dict[str, str]) -> bool:
        """Take a variant out of the race; what the others have stays. Without eager nothing can be compared."""
        label = "eager" if label == AGAIN else label
        self.rows[label].fail("failed", failure["note"], failure["kind"], failure["phase"])
        self.progress(f"{label}: {failure['kind']} ({failure['phase']}): {failure['note']}")
        if label == "eager":
            for other in self.living():
                self.rows[other].fail("not measured", "the plain model could not be timed")
        for run in self.runs:
            run.pop(label, None)
        return False

    def compile_warm(self, kitchen: Kitchen, label: str) -> None:
        """Take the warm compile time of a variant that was first in no process."""
        variant = asdict(self.variants[label])
        more = {"variants": [variant], "first": label, "seed": 0, "seconds": 0.0}
        with contextlib.suppress(Lost):
            answer = kitchen.run("together", self.settings.timeout, **more)
            if answer.get("ok", {}).get("warm_s") is not None:
                set_compile(self.rows[label], "warm", [answer["ok"]["warm_s"]])

    def warn(self, text: str) -> None:
        """Keep a warning, once."""
        if text not in self.report.warnings:
            self.report.warnings.append(text)

    def judged(self, label: str) -> Judgement:
        """The judgement on a variant by what was timed so far."""
        return judge(self.runs, label, self.settings.margin, not self.settings.isolated)

    def all_clear(self) -> bool:
        """Whether more processes would only cost time."""
        return all(self.judged(label).clear for label in self.living() if label not in ("eager", AGAIN))

    def standing(self) -> str:
        """The ratios so far, for the progress line."""
        parts = []
        for label in self.living():
            if label != "eager":
                ratio, low, high = self.judged(label).interval.ratios
                parts.append(f"{label} {ratio:.3f}" + (f" ({low:.3f} to {high:.3f})" if low and high else ""))
        return ", ".join(parts)

    def fill_steps(self) -> None:
        """Put step times, ratios and verdicts of all runs so far into the rows."""
        for label in self.living():
            row = self.rows[label]
            row.samples_us = [block * 1e6 for run in self.runs for block in run[label]]
            row.samples_process = [number for number, run in enumerate(self.runs) for _ in run[label]]
            row.step_q1_us, row.step_us, row.step_q3_us = quartiles(row.samples_us)
            row.processes, row.rounds = len(self.runs), len(self.runs[-1][label])
            if label == "eager":
                row.speedup_ratio = 1.0
                continue
            judged = self.judged(label)
            row.speedup_ratio, row.speedup_low, row.speedup_high = judged.interval.ratios
            row.verdict, row.resolved = judged.verdict, judged.resolved

    # ---- the end

    def finish(self, before: dict[str, float]) -> None:
        """Sums, picks, warnings."""
        report, rows = self.report, self.report.rows
        if self.runs and self.rows["eager"].status == "ok":
            self.report.noisy = self.judged(AGAIN).verdict in ("faster", "slower")
            for row in rows:
                row.noisy = report.noisy
            if report.noisy:
                self.warn("noisy: eager differs from itself, so trust no small difference")
        for row in rows:
            if row.status == "ok" and row.step_us is None:
                row.note = "compiled alone; its turn to be timed did not come"
        add_sums(rows, self.settings.steps)
        for start in ("cold", "warm"):
            chosen, text = pick(rows, start)
            if chosen is None and start == "warm":
                break  # there is nothing to say twice
            report.picks[start] = text
            if chosen is not None:
                setattr(chosen, f"pick_{start}", True)
        for row in rows:
            notes = [report.picks[s] for s in ("cold", "warm") if getattr(row, f"pick_{s}")]
            row.pick_note = " | ".join(dict.fromkeys(notes)) or None
        after = machine_state()
        report.environment["machine"] = {"before": before, "after": after}
        report.environment["machine"]["others_cores"] = self.others
        cores = os.cpu_count() or 1
        if self.others and (most := max(self.others)) > BUSY_CORES:
            self.warn(f"the machine was busy: other programs kept up to {most:.1f} of {cores} cores at work")
        elif not self.others and before.get("load", 0.0) > 0.5 * cores:
            self.warn(f"the machine was busy at the start: load {before['load']:.1f} on {cores} cores")
        stolen, spent = (after.get(key, 0.0) - before.get(key, 0.0) for key in ("steal_s", "all_s"))
        if spent > 0 and stolen / spent > 0.02:
            self.warn(f"{stolen / spent:.0%} of the processor time went to other guests of this host (steal)")

    def account(self, total: float) -> None:
        """Say where the wall time went; "outside" is the share that is neither compiling nor stepping."""
        spent = {key: self.clock.spent.get(key, 0.0) for key in ("compile", "step", "start", "model", "check")}
        useful = spent["compile"] + spent["step"]
        self.report.clock_s = spent | {
            "other": max(0.0, total - sum(spent.values())),
            "total": total,
            "outside_ratio": max(0.0, 1 - useful / total),
        }


#: What a child's log tells that its answer does not.
LOG_NOTES = (
    (r"backend ignoring extra kwargs", "the back end ignores mode and options"),
    (r"hit config\.\w*recompile_limit", "the recompile limit was hit: some calls run uncompiled"),
    (r"Not enough SMs to use max_autotune_gemm", "the GPU is too small for GEMM autotuning"),
)


def work_of(operators: dict[str, int]) -> dict[str, int]:
    """Return the operators without those that autograd alone adds."""
    return {name: n for name, n in operators.items() if name not in ("aten::ones_like", "aten::add_")}


def cuda_graphs_of(device: str, skips: int, replays: int | None, sizes: int = 1) -> str:
    """Return whether CUDA graphs were replayed in a cycle over ``sizes`` batch sizes, or why not."""
    if not device.startswith("cuda"):
        return f"no: the device is {device}"
    if replays:
        return f"in part: {replays / sizes:.3g} replay(s) a step, {skips} graph(s) skipped" if skips else "replayed"
    return f"no: skipped {skips} time(s)" if skips else "no: none was replayed"


def set_compile(row: Row, start: str, samples: list[float]) -> None:
    """Put the samples of a compile time into a row: median, least, greatest."""
    setattr(row, f"samples_compile_{start}_s", samples)
    setattr(row, f"compile_{start}_s", statistics.median(samples))
    setattr(row, f"compile_{start}_low_s", min(samples))
    setattr(row, f"compile_{start}_high_s", max(samples))


def machine_state() -> dict[str, float]:
    """Return load average and processor seconds, where the system tells.

    Of the machine since it started: ``busy_s`` at work, ``steal_s`` that the host gave to others, ``all_s`` in all.
    ``own_s`` are those of this process; ``clock_s`` is the time.
    """
    state: dict[str, float] = {"clock_s": time.monotonic(), "own_s": time.process_time()}
    with contextlib.suppress(OSError, AttributeError):
        state["load"] = os.getloadavg()[0]
    with contextlib.suppress(OSError, IndexError, ValueError):
        ticks = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        unit = os.sysconf("SC_CLK_TCK")
        user, nice, system, idle, wait, irq, soft, steal = (tick / unit for tick in ticks[:8])
        state["busy_s"], state["steal_s"] = user + nice + system + irq + soft, steal
        state["all_s"] = state["busy_s"] + idle + wait + steal
    return state


def others_at_work(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Return how many cores other programs kept at work between two states, or None where the system does not tell."""
    if "busy_s" not in before or "busy_s" not in after:
        return None
    busy, own, clock = (after[key] - before[key] for key in ("busy_s", "own_s", "clock_s"))
    return max(0.0, busy - own) / clock if clock > 0 else None


def spec_of(factory: str | Callable[..., Any]) -> str:
    """Return ``file.py:name`` of a factory: the child processes import it from there."""
    if isinstance(factory, str):
        return factory
    name = getattr(factory, "__qualname__", repr(factory))
    try:
        path = inspect.getsourcefile(factory)
    except TypeError:  # a partial, a builtin
        path = None
    if path is None or "<" in name:
        raise UsageError(f"{name}: the factory must be a function at the top level of a file: processes import it")
    module = sys.modules.get(factory.__module__)
    if module is not None and getattr(module, "__package__", None) and Path(path).with_name("__init__.py").is_file():
        return f"{factory.__module__}:{name}"  # inside a package, where relative imports must hold
    return f"{path}:{name}"


def check_optimizer(name: str) -> None:
    """Raise UsageError where ``name`` is no optimizer of torch.optim that a plain training step can call."""
    found, base = getattr(torch.optim, name, None), torch.optim.Optimizer
    if not inspect.isclass(found) or not issubclass(found, base) or found is base:
        raise UsageError(f"--optimizer {name}: torch.optim has no such optimizer (AdamW, SGD, ...)")
    kind: Any = found
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise UsageError(f"--optimizer {name}: its step() wants a closure and runs the model itself; take another")


def usable_cores() -> int:
    """Return the cores that this process may use."""
    with contextlib.suppress(AttributeError):  # Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: int) -> None:
    """Raise UsageError for more CPU threads than can be meant: OpenMP ends the process where it can't start them."""
    if threads < 0:
        raise UsageError("--threads: wants 0 (what torch takes) or more")
    cores, wanted = usable_cores(), threads or torch.get_num_threads()
    if wanted > THREADS_PER_CORE * cores:
        taken = "" if threads else f": torch takes {wanted}, see OMP_NUM_THREADS"
        raise UsageError(
            f"--threads {threads}{taken}; there are {cores} core(s) to use here: "
            f"wants {THREADS_PER_CORE * cores} or fewer ({THREADS_PER_CORE} a core)"
        )


def usable_devices() -> list[str]:
    """Return the devices on which a model can run here; asking does not start them."""
    found = ["cpu"] + [f"cuda:{number}" for number in range(torch.cuda.device_count()) if torch.cuda.is_available()]
    other = torch.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type != "cuda":
        found += [f"{other.type}:{number}" for number in range(torch.accelerator.device_count())]
    return found


def check_device(name: str) -> None:
    """Raise UsageError where a model can't run on this device here."""
    usable = usable_devices()
    try:
        device = torch.device(name)
    except RuntimeError:
        reason = "torch knows no such device"
    else:
        same = [place for place in usable if place.partition(":")[0] == device.type]
        if same and (device.type == "cpu" or device.index is None or str(device) in same):
            return
        reason = f"there is no {device.type} device here" if not same else "there is no device of this number"
        if device.type == "meta":
            reason = "its tensors hold no values"
    raise UsageError(f"--device {name}: {reason}; usable here: {', '.join(usable)}")


def check_settings(settings: Settings) -> None:
    """Raise UsageError for what can be seen to be wrong before a process starts."""
    for name in ("steps", "cold_repeats"):
        if getattr(settings, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')}: wants 1 or more")
    if settings.processes < 2:
        raise UsageError("--processes: wants 2 or more: one says nothing about how far others would be from it")
    for name in ("seconds", "block_ms", "timeout"):
        if not 0 < getattr(settings, name) < math.inf:
            raise UsageError(f"--{name.replace('_', '-')}: wants a number above 0")
    for name in ("dtype", "autocast"):
        value = getattr(settings, name)
        if value is not None and value not in TOLERANCE:
            raise UsageError(f"--{name} {value}: wants one of {', '.join(TOLERANCE)}")
    if not 0 <= settings.margin < 1:
        raise UsageError("--margin: wants a share from 0 to below 1, such as 0.02")
    if not 0 <= settings.seed < 2**32:
        raise UsageError("--seed: wants 0 to 4294967295")
    check_threads(settings.threads)
    if any(size < 1 for size in settings.batches):
        raise UsageError("--batches: wants sizes of 1 or more")
    if settings.optimizer is not None:
        check_optimizer(settings.optimizer)
        settings.training = True
    if settings.training and settings.inference_mode:
        raise UsageError("--inference-mode does not go with training")
    if settings.device is not None:
        check_device(settings.device)
    place = settings.model.rpartition(":")[0]
    if settings.model and not place:
        raise UsageError(f"{settings.model!r}: wants file.py:factory or package.module:factory")
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"{settings.model!r}: there is no file {place}")
    parse_variants(settings.variants, settings, settings.device or "cpu")


def measure(settings: Settings, progress: Progress = lambda text: None, began: float | None = None) -> Report:
    """Compare as the settings say; UsageError for what cannot be meant. ``began``: time.monotonic() of the start."""
    if CHILD_MARK in os.environ:
        # Without this, each child would start children of its own.
        raise RuntimeError('the file of the model calls compare() itself: put that under if __name__ == "__main__":')
    settings = dataclasses.replace(settings)
    if isinstance(settings.variants, str):
        settings.variants = split_variants(settings.variants)
    check_settings(settings)
    return Comparison(settings, progress).run(time.monotonic() if began is None else began)


def compare(factory: str | Callable[..., Any] = demo_mlp, **settings: Any) -> list[Row]:
    """Compare back ends on ``factory() -> (model, example_inputs)``; keywords: the fields of Settings.

    The factory is a function at the top level of a file, or ``"file.py:name"``: fresh processes import it from there.
    A script that calls this needs ``if __name__ == "__main__":`` round the call.
    """
    return measure(Settings(model=spec_of(factory), **settings)).rows


def name_of(model: str) -> str:
    """Return a model's name in rows: ``file:factory`` without folder and ``.py``."""
    place, _, factory = model.rpartition(":")
    file = re.split(r"[/\\]", place)[-1].removesuffix(".py")
    return f"{file}:{factory}" if model else "demo_mlp"


def run(
    *,
    model: str = "",
    factories: Sequence[str] = ("build",),
    inference_only: Sequence[str] = (),
    seconds: float = 3.0,
    processes: int = 5,
    steps: int = 10_000,
) -> list[dict[str, Any]]:
    """Compare the default variants; one flat row for each factory, workload and variant (columns: Row).

    Without ``model`` it is the demo MLP in inference. Else ``model`` is a file: its ``factories`` run in inference and,
    where they are not in ``inference_only``, in training, under the back end "eager" too: capture alone, every back
    end has it. ``warnings`` are those of the run that a row comes from.
    """
    jobs: list[tuple[str, bool]] = [("", False)]
    variants: tuple[str, ...] = ()
    if model:
        usual = parse_variants((), Settings(), "cuda" if torch.cuda.is_available() else "cpu")
        variants = ("compile:eager", *(variant.label for variant in usual if variant.kind == "backend"))
        jobs = [(f"{model}:{f}", t) for f in factories for t in ((False,) if f in inference_only else (False, True))]
    rows: list[dict[str, Any]] = []
    for spec, training in jobs:
        report = measure(
            Settings(spec, variants=variants, training=training, seconds=seconds, processes=processes, steps=steps)
        )
        if report.interrupted:
            raise KeyboardInterrupt
        rows += [
            asdict(dataclasses.replace(row, log=None)) | {"warnings": "; ".join(report.warnings) or None}
            for row in report.rows
        ]
    return rows


# ================================================================ output


def seconds(value: float | None) -> str:
    """A duration in words."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s" if value < 7200 else f"{value / 3600:,.1f} h"


def micro(value: float | None) -> str:
    """A step time."""
    if value is None:
        return "-"
    return f"{value:.3g} us" if value < 1e3 else f"{value / 1e3:.3g} ms" if value < 1e6 else f"{value / 1e6:.3g} s"


def span(center: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its interval."""
    if center is None:
        return "-"
    return f"{center:.2f}x" + (f" ({low:.2f}-{high:.2f})" if low is not None and high is not None else "")


def n_star(row: Row, start: str) -> str:
    """Break-even with its interval, or never."""
    value = getattr(row, f"break_even_{start}")
    if value is None:
        return row.break_even_text or "-"
    low, high = getattr(row, f"break_even_{start}_low"), getattr(row, f"break_even_{start}_high")
    return f"{value:,} ({'' if low is None else f'{low:,}'}-{'' if high is None else f'{high:,}'})"


def number(value: float | None, form: str) -> str:
    """A number in a format, or a dash."""
    return "-" if value is None else format(value, form)


STEP_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("variant", lambda r: r.variant),
    ("status", lambda r: r.status),
    ("step", lambda r: micro(r.step_us)),
    ("speed-up (95 %)", lambda r: span(r.speedup_ratio, r.speedup_low, r.speedup_high)),
    ("verdict", lambda r: r.verdict or "-"),
    ("compile cold", lambda r: seconds(r.compile_cold_s)),
    ("warm", lambda r: seconds(r.compile_warm_s)),
    ("T cold", lambda r: seconds(r.total_cold_s)),
    ("T warm", lambda r: seconds(r.total_warm_s)),
    ("R cold", lambda r: number(r.payoff_cold_r, ".2g")),
    ("N* cold (range)", lambda r: n_star(r, "cold")),
    ("N* warm (range)", lambda r: n_star(r, "warm")),
)
INSIDE_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("variant", lambda r: r.variant),
    ("error", lambda r: number(r.max_rel_error, ".1e")),
    ("against", lambda r: r.reference or "-"),
    ("peak MiB", lambda r: number(r.peak_mib, ",.0f")),
    ("page faults", lambda r: number(r.page_faults, ",.0f")),
    ("graphs", lambda r: number(r.graphs, "d")),
    ("breaks", lambda r: number(r.graph_breaks, "d")),
    ("recompiles", lambda r: number(r.recompiles, "d")),
    ("operators", lambda r: number(r.operators, "d")),
    ("dynamo", lambda r: seconds(r.compile_dynamo_s)),
    ("aot", lambda r: seconds(r.compile_aot_s)),
    ("inductor", lambda r: seconds(r.compile_inductor_s)),
    ("C++/Triton", lambda r: seconds(r.compile_native_s)),
    ("rest", lambda r: seconds(r.compile_rest_s)),
)


def aligned(rows: Sequence[Row], columns: Sequence[tuple[str, Callable[[Row], str]]]) -> str:
    """A table for the terminal."""
    lines = [[title for title, _ in columns], *([show(row) for _, show in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[0] = -widths[0]  # the first column to the left
    return "\n".join(
        "  ".join(f"{t:{'<' if w < 0 else '>'}{abs(w)}}" for t, w in zip(line, widths, strict=True)) for line in lines
    )


def remarks(report: Report) -> list[str]:
    """Lines below the tables: notes, breaks, warnings, the picks."""
    lines = []
    for row in report.rows:
        if row.status != "ok":
            where = f" [{row.failure}; {row.phase}]" if row.failure else ""
            lines.append(f"{row.variant}: {row.status}{where}: {row.note}")
        elif row.note and row.variant != AGAIN:
            lines.append(f"{row.variant}: {row.note}")
        if row.ran and row.ran != "yes":
            lines.append(f"{row.variant}: ran: {row.ran}")
        if row.cuda_graphs and row.cuda_graphs != "replayed":
            lines.append(f"{row.variant}: CUDA graphs: {row.cuda_graphs}")
        if row.breaks:
            lines.append(f"{row.variant}: graph breaks: {row.breaks}")
        if row.recompile_reasons:
            lines.append(f"{row.variant}: recompiles: {row.recompile_reasons}")
        if row.status == "ok" and row.resolved is False and row.variant not in ("eager", AGAIN):
            lines.append(
                f"{row.variant}: the interval reaches beyond the margin of {report.settings.margin:.3g}; "
                "more --processes and --seconds could tell"
            )
    if any((row.page_faults or 0) >= MANY_FAULTS for row in report.rows):
        lines.append(
            "page faults: the C allocator gives memory back to the system and takes it again in each step, which costs "
            "time that varies from process to process; compare with --keep-memory"
        )
    return lines + [f"warning: {text}" for text in report.warnings]


def as_text(report: Report) -> str:
    """The report for a terminal."""
    where = report.environment
    lines = []
    if "torch" in where:
        model = report.settings.model.rpartition("/")[2] or "demo MLP"
        lines.append(
            f"{model}, {report.settings.mode}, {where['device_name']} ({where['device']}), "
            f"{where['threads']} thread(s), torch {where['torch']}"
        )
    lines += [aligned(report.rows, STEP_COLUMNS), "", aligned(report.rows, INSIDE_COLUMNS), "", *remarks(report)]
    for start, text in report.picks.items():
        lines.append(f"Pick for {report.settings.steps:,} steps from a {start} start: {text}")
    return "\n".join(lines)


def as_markdown(report: Report) -> str:
    """The report as Markdown tables."""
    parts = []
    for columns in (STEP_COLUMNS, INSIDE_COLUMNS):
        lines = ["| " + " | ".join(title for title, _ in columns) + " |"]
        lines.append("|" + " --- |" * 1 + " ---: |" * (len(columns) - 1))
        lines += ["| " + " | ".join(show(row).replace("|", "\\|") for _, show in columns) + " |" for row in report.rows]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {line}" for line in remarks(report)))
    steps = f"{report.settings.steps:,} steps"
    parts += [f"**Pick for {steps} from a {start} start:** {text}" for start, text in report.picks.items()]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_csv(report: Report) -> str:
    """The rows as CSV, with every column but the samples."""
    names = [item.name for item in fields(Row) if not item.name.startswith("samples_")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in report.rows)
    return text.getvalue()


# ================================================================ the command line


def parser() -> argparse.ArgumentParser:
    """The command line; names are those of Settings."""
    made = argparse.ArgumentParser(
        prog="compare_backends.py",
        description="Compare torch.compile back ends on a model of yours. Without MODEL: a small MLP.",
        epilog="The head of the file describes variants, method and columns.",
    )
    whole, real = int, float
    made.add_argument("model", nargs="?", default="", metavar="MODEL", help="file.py:factory or package.module:factory")
    made.add_argument("--arg", action="append", default=[], metavar="KEY=VALUE", help="keyword for the factory")
    made.add_argument("--variants", default="", help="comma-separated, e.g. eager,inductor,inductor:max-autotune")
    made.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="options= of torch.compile")
    made.add_argument("--training", action="store_true", help="forward and backward")
    made.add_argument("--optimizer", help="a class of torch.optim; adds its step to a training step")
    made.add_argument("--inference-mode", action="store_true", help="torch.inference_mode() instead of no_grad()")
    made.add_argument("--dtype", help="convert model and inputs: " + ", ".join(TOLERANCE))
    made.add_argument("--autocast", metavar="DTYPE", help="run forward under torch.autocast")
    made.add_argument("--device", help="default: cuda where there is one, else cpu")
    made.add_argument("--threads", type=whole, default=Settings.threads, help="CPU threads (%(default)s; 0: torch's)")
    made.add_argument("--channels-last", action="store_true")
    made.add_argument("--batches", default="", help="batch sizes a step goes through, e.g. 1,8,32")
    made.add_argument("--dynamic", choices=("true", "false"), help="dynamic= of torch.compile")
    made.add_argument("--fullgraph", action="store_true", help="fullgraph= of torch.compile")
    made.add_argument("--steps", type=whole, default=Settings.steps, help="N, the steps of your job (%(default)s)")
    made.add_argument("--seconds", type=real, default=Settings.seconds, help="stepping time a variant (%(default)s)")
    made.add_argument("--processes", type=whole, default=Settings.processes, help="at most so many (%(default)s)")
    made.add_argument("--cold-repeats", type=whole, default=1, help="cold compiles of each variant (%(default)s)")
    made.add_argument("--margin", type=real, default=Settings.margin, help="a smaller effect is none (%(default)s)")
    made.add_argument("--timeout", type=real, default=Settings.timeout, help="seconds until a hang (%(default)s)")
    made.add_argument("--block-ms", type=real, default=Settings.block_ms, help="length of a block (%(default)s)")
    made.add_argument("--isolated", action="store_true", help="time each variant in a process of its own")
    made.add_argument("--keep-memory", action="store_true", help="the C allocator (glibc) keeps freed memory")
    made.add_argument("--seed", type=whole, default=0)
    made.add_argument("--json", metavar="FILE", help="write everything, with every sample; - for standard output")
    made.add_argument("--csv", metavar="FILE", help="write the rows without samples; - for standard output")
    made.add_argument("--markdown", metavar="FILE", help="write the tables; - for standard output")
    made.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return made


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the settings that a command line asks for."""
    names = {item.name for item in fields(Settings)}
    same = {name: value for name, value in vars(given).items() if name in names}
    try:
        batches = tuple(int(size) for size in given.batches.split(",") if size)
    except ValueError as error:
        raise UsageError(f"--batches {given.batches}: wants numbers separated by commas") from error
    return Settings(**same | {
        "variants": split_variants(given.variants),
        "factory_args": parse_pairs(given.arg),
        "options": parse_pairs(given.option),
        "batches": batches,
        "dynamic": None if given.dynamic is None else given.dynamic == "true",
    })  # fmt: skip


#: The options that write a report somewhere.
WRITERS: dict[str, Callable[[Report], str]] = {
    "json": lambda report: json.dumps(report.as_json(), allow_nan=False, indent=1) + "\n",
    "csv": as_csv,
    "markdown": as_markdown,
}


def check_places(given: argparse.Namespace) -> None:
    """Raise UsageError where what is to be written can't be, or would cost something else: better now than later."""
    taken: dict[Path | str, str] = {Path(given.model.rpartition(":")[0]).resolve(): "MODEL"} if given.model else {}
    for option in WRITERS:
        path = getattr(given, option)
        if path is None:
            continue
        if not path or path.endswith(".py"):
            raise UsageError(
                f"--{option} {path or '(empty)'}: wants a file for the report, which no Python file can be"
            )
        target = Path(path)
        folder = target.resolve().parent
        place: Path | str = path if path == "-" else target.resolve()
        if place in taken:
            what = "standard output" if path == "-" else path
            raise UsageError(f"--{option} {path}: {what} is taken by {taken[place]}; name another file")
        taken[place] = f"--{option}"
        if path == "-":
            continue
        if target.is_dir() or not folder.is_dir():
            raise UsageError(f"{path}: {'is a folder' if target.is_dir() else 'there is no such folder'}")
        if not os.access(target if target.exists() else folder, os.W_OK):
            raise UsageError(f"{path}: may not be written")


def emit(report: Report, given: argparse.Namespace) -> bool:
    """Write what was asked for; the table goes to standard output unless something else does.

    False where a file could not be written: it then lies in the temporary folder, and the others are written.
    """
    places = {option: getattr(given, option) for option in WRITERS if getattr(given, option) is not None}
    if "-" not in places.values():
        print(as_text(report), flush=True)
    written = True
    for option, path in places.items():
        text = WRITERS[option](report)
        if path == "-":
            sys.stdout.write(text)
            continue
        try:
            Path(path).write_text(text, "utf-8")
        except OSError as error:
            written = False
            with tempfile.NamedTemporaryFile(
                "w", prefix="compare-backends-", suffix=f".{option}", delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            print(f"compare_backends.py: {path} was not written ({error}); it is in {file.name}", file=sys.stderr)
    return written


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    if arguments[:1] == ["--child"]:
        child_main(arguments[1])
    given = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no Chinese must not cost the report
            stream.reconfigure(errors="backslashreplace")
    # Importing torch here counts as our time too; it is processor time, all of it spent before this line.
    start = time.monotonic() - time.process_time()

    def progress(text: str) -> None:
        if not given.quiet:
            print(f"[{time.monotonic() - start:6.1f} s] {text}", file=sys.stderr, flush=True)

    try:
        with contextlib.suppress(ValueError):  # not the main thread
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
                    signal.signal(getattr(signal, name), signal.default_int_handler)
        check_places(given)
        report = measure(settings_of(given), progress, start)
        if report.interrupted and not report.tells:
            raise KeyboardInterrupt
        written = emit(report, given)
    except UsageError as error:
        print(f"compare_backends.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    return 0 if report.measured and written else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
