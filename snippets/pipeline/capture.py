# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 58
# ///
"""One function at every stage of torch.compile, line by line: what each line became, and what it came from.

Small functions are compiled for real on this machine. Every stage is kept as text, and each line of it carries the
operators that it belongs to, so that a page can light up one operator from the source to the generated kernel. The
result is compared with eager in float64, and the generated code with that of a plain compile. Nothing is timed.

For CUDA without a GPU the code is generated and not run (``origin``): Inductor lowers tensors without data and is
told about an H100 (compute capability 9.0) that is not there. Most examples go through Dynamo and AOTAutograd as CUDA
tensors without data; where there is a backward pass, or Python asks for a value, real CPU tensors go through both, and
the graph is moved to CUDA before Inductor gets it. A graph that holds an operator of the CPU alone is refused.

Stages
    source                  the function, without its docstring
    bytecode, rewritten     Python's own bytecode; what Dynamo puts in its place
    guards                  what must hold for the compiled code to be used again
    eager                   the ATen operators that eager calls, one after the other (views among them)
    dynamo                  the FX graph that a back end receives
    aot_eager_fw, _bw       the graph that aot_eager runs, operator by operator
    cudagraphs_fw, _bw      the graph that the back end cudagraphs records
    aot_fw, _bw             the graph that Inductor gets: decomposed further
    post_fw, _bw            the same graph after Inductor's passes
    ir_pre_fw, ir_post_fw   (_bw) Inductor's loop nodes before and after fusion
    kernel_fw, _bw          the kernels: C++ for a CPU, Triton for a GPU
    wrapper_fw, _bw         the Python function that allocates and calls the kernels

How a line gets its operators: an operator is a node of the graph after Inductor's passes, "fw:exp" or "bw:mul".
Inductor is made to remember, while it lowers and while it writes code, for which node it does so; the earlier stages
are joined by what torch notes in its nodes (from_node, seq_nr, stack_trace). Where a pass has thrown the note away, the
node borrows that of its neighbours: such are named in ``approximate``. All of this reaches into private parts of torch
and is written for torch 2.13; with another one every row says so.

Rows of kind "stage", one a stage of a graph:
    example, target, graph     the function; "cpu" or "cuda"; 1 is the first graph that Dynamo captured
    position, stage, language  order and name of the stage; language of its text
    lines, text                the text and how many lines it has
    links                      JSON, one string a line: its operators, and "@name" for the kernel it is part of
Rows of kind "graph", one a graph:
    origin                     "compiled and run" or "generated, not run"
    title                      what the graph is: a function's name, or that of the rest after a graph break
    operators                  JSON: for each operator its op and target; for an input of the function its name
    nodes                      JSON: for each loop node before fusion its operators and the node it was fused into
    kernels                    JSON: each call of a kernel or of the library, with its operators, its loop nodes, and
                               how many buffers it reads and writes
    torch_calls, aten_operators, loop_nodes, fused_nodes, launches
                               how many calls the stages dynamo, aot, ir_pre, ir_post and wrapper hold, both passes
    approximate                JSON: what of the links is borrowed
    max_rel_error              largest absolute error of the compiled result (and gradients) over the largest
                               reference; None where nothing ran
    same_code                  whether the generated code is that of a plain compile
Rows of kind "backend", one a back end, for one call of the function:
    backend                    "eager", "aot_eager", "inductor", "cudagraphs"
    operators_run              operators that compute, forward and backward
    launches                   calls that start them: one an operator, one a kernel, or one a CUDA graph
Common: device, threads, status ("ok"; "failed", "wrong", "unavailable" with the reason in note), note
"""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import dis
import functools
import importlib
import importlib.util
import inspect
import json
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Row = dict[str, Any]

WRITTEN_FOR = "2.13"
TOLERANCE = 1e-4
BACKENDS = ("eager", "aot_eager", "inductor", "cudagraphs")
OTHER_TORCH = "Not captured: the hooks are written for torch {}, this is torch {}."
NO_TRITON = "Triton is not installed, and without it no Triton code is generated (pip install triton)."
NO_GRAPH = "No graph was captured, so there is no stage to show (is TORCHDYNAMO_DISABLE or TORCH_COMPILE_DISABLE set?)."


# ---------------------------------------------------------------- the functions


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    """Return five element-wise operators on two tensors of one shape."""
    a = torch.sin(x) * 2
    b = torch.relu(a + y)
    return torch.tanh(b) - x


def softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of masked scores, row by row."""
    masked = scores + mask
    return torch.softmax(masked, dim=-1)


def layer_norm_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return GELU of a layer norm."""
    h = functional.layer_norm(x, (512,), weight, bias)
    return functional.gelu(h)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return a linear layer with ReLU."""
    h = functional.linear(x, weight, bias)
    return torch.relu(h)


def training(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """Return the loss of a layer; its backward is captured too."""
    h = torch.relu(functional.linear(x, weight, bias))
    return torch.mean((h - target) ** 2)


def graph_break(x: Tensor, y: Tensor) -> Tensor:
    """Branch on a value that only running the first part can tell."""
    h = torch.sin(x) * y
    if h.sum() > 0:
        h = h * 2
    return torch.relu(h)


def dynamic_shape(x: Tensor, weight: Tensor) -> Tensor:
    """Return column sums, for inputs with any number of rows."""
    h = torch.exp(x) * weight
    return h.sum(dim=0)


def step(function: Callable[..., Tensor], values: Sequence[Tensor]) -> Tensor:
    """Run one training step without an optimizer."""
    loss = function(*values)
    loss.backward()
    return loss


@dataclass(frozen=True)
class Example:
    """A function, the shapes of its inputs, and how it is called.

    ``trained`` are the inputs that get a gradient. ``rows`` are the numbers of rows of the first input, one a call.
    ``asks`` tells that Python needs the value of a tensor.
    """

    function: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    trained: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    asks: bool = False

    @property
    def moved(self) -> bool:
        """Whether tensors without data can't go through it."""
        return self.asks or bool(self.trained)


EXAMPLES: dict[str, Example] = {
    "pointwise": Example(pointwise, ((128, 512), (128, 512))),
    "softmax": Example(softmax, ((128, 512), (512,))),
    "layer_norm_gelu": Example(layer_norm_gelu, ((128, 512), (512,), (512,))),
    "linear_relu": Example(linear_relu, ((128, 256), (512, 256), (512,))),
    "training": Example(training, ((64, 128), (32, 128), (32,), (64, 32)), trained=(1, 2)),
    "graph_break": Example(graph_break, ((128, 512), (128, 512)), asks=True),
    "dynamic_shape": Example(dynamic_shape, ((64, 256), (256,)), rows=(64, 96, 128)),
}


def inputs(example: Example, device: str, fake: bool = False) -> list[list[Tensor]]:
    """Return the inputs of each call, the same every time; all above zero, so that a sum is, too.

    ``fake`` are without data: to be made in a FakeTensorMode.
    """
    calls = []
    for rows in example.rows or (example.shapes[0][0],):
        generator = torch.Generator().manual_seed(0)
        values = []
        for i, shape in enumerate([(rows, *example.shapes[0][1:]), *example.shapes[1:]]):
            if fake:
                value = torch.empty(*shape, device=device)
            else:
                value = (torch.rand(*shape, generator=generator) / shape[-1] ** 0.5).to(device)
            values.append(value.requires_grad_(i in example.trained))
        calls.append(values)
    return calls


def call(example: Example, function: Callable[..., Tensor], values: Sequence[Tensor]) -> list[Tensor]:
    """Call a function as its example says and return the results: the output, and the gradients."""
    if not example.trained:
        with torch.no_grad():
            return [function(*values)]
    for value in values:
        value.grad = None
    loss = step(function, values)
    return [loss.detach(), *(values[i].grad.clone() for i in example.trained)]


# ---------------------------------------------------------------- what is kept of a compile


@dataclass
class Node:
    """What a node of an FX graph tells of itself. ``lines`` are lines of this file; ``keys`` are found later."""

    name: str
    op: str
    target: str
    lines: tuple[int, ...]
    sequence: int | None
    comes_from: list[tuple[str, int]]
    described: str
    users: list[str]
    inputs: list[str]
    view: bool
    keys: set[str] = field(default_factory=set)
    dynamo: set[str] = field(default_factory=set)

    @property
    def calls(self) -> bool:
        """Whether it calls something."""
        return self.op.startswith("call_")


@dataclass
class Graph:
    """An FX graph: its nodes by name, and its text."""

    nodes: dict[str, Node]
    text: str
    identity: int

    def placeholders(self) -> list[str]:
        """Return the names of its inputs, in order."""
        return [node.name for node in self.nodes.values() if node.op == "placeholder"]

    def computing(self) -> list[Node]:
        """Return the nodes that compute: no views, no picking out of a tuple."""
        picks = ("<built-in function getitem>",)
        return [n for n in self.nodes.values() if n.calls and not n.view and n.target not in picks]


@dataclass
class Pass:
    """A forward or a backward on its way through Inductor.

    A line of loop IR is (text, operators, name of the block). ``loops`` has the operators of each loop node, ``fused``
    the fused node that it went into; ``kernels`` and ``parts`` have the operators and the loop nodes of each call.
    """

    name: str
    aot: Graph
    post: Graph | None = None
    before: list[tuple[str, list[str], str]] = field(default_factory=list)
    after: list[tuple[str, list[str], str]] = field(default_factory=list)
    nodes_before: int = 0
    nodes_after: int = 0
    buffers: dict[str, list[str]] = field(default_factory=dict)
    loops: dict[str, list[str]] = field(default_factory=dict)
    fused: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    code: str = ""
    approximate: list[str] = field(default_factory=list)


@dataclass
class Other:
    """What a back end without Inductor gets to run for a graph of Dynamo, and what that graph was."""

    dynamo: Graph
    passes: dict[str, Graph] = field(default_factory=dict)


@dataclass
class Captured:
    """One graph of Dynamo, and what became of it."""

    dynamo: Graph
    passes: dict[str, Pass] = field(default_factory=dict)
    original: CodeType | None = None
    rewritten: CodeType | None = None
    guards: str = ""
    others: dict[str, Other] = field(default_factory=dict)
    approximate: list[str] = field(default_factory=list)


def is_view(target: Any) -> bool:
    """Tell whether an ATen operator only gives another view of its input, or hands it on: nothing is launched."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    aliases = [value.alias_info for value in schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def lines_of(trace: str | None, file: str) -> tuple[int, ...]:
    """Return the lines of a file that a stack trace goes through."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace or "")
    return tuple(int(line) for name, line in frames if name == file)


def origins(sources: Iterable[Any] | None) -> list[tuple[str, int]]:
    """Return the names and graphs of the nodes that a node was made from, nearest first."""
    found, queue = [], list(sources or [])
    while queue:
        source = queue.pop(0)
        found.append((source.name, source.graph_id))
        queue += source.from_node
    return found


def read_graph(module: torch.fx.GraphModule) -> Graph:
    """Keep what a graph says now: passes change it in place."""
    nodes = {}
    for node in module.graph.nodes:
        described = node.meta.get("desc")
        nodes[node.name] = Node(
            name=node.name,
            op=node.op,
            target=str(node.target),
            lines=lines_of(node.meta.get("stack_trace") or node.stack_trace, __file__),
            sequence=node.meta.get("seq_nr"),
            comes_from=origins(node.meta.get("from_node")),
            described="" if described is None else repr(described),
            users=[user.name for user in node.users],
            inputs=[value.name for value in node.all_input_nodes],
            view=is_view(node.target),
        )
    return Graph(nodes, clean(str(module.print_readable(print_output=False))), id(module.graph))


def clean(text: str) -> str:
    """Return a text without what differs from run to run: folders, addresses, made-up names."""
    text = re.sub(r"(?:[\w.+@~-]*/)+([\w-]+\.py\b)", r"\1", text)
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(r"(__compiled_fn)_\d+(?:_[0-9a-f]{4,})+", r"\1", text)
    return re.sub(r"(_obj_id\([^()]*(?:\([^()]*\))?[^()]*, )\d{6,}", r"\1...", text)


# ---------------------------------------------------------------- hooks: for which node a line is written

ORIGIN = "kitchen_origin"
#: The nodes whose loops are run through at this moment, innermost last.
LOWERED: list[str] = []
MARK = re.compile(r"\s*(?:/\*@@(\w+)\*/|#@@(\w+))")


class Remembering:
    """A function of Inductor's that knows for which node it was made."""

    def __init__(self, function: Callable[..., Any], node: str) -> None:
        self.function, self.node = function, node

    def __call__(self, *values: Any, **options: Any) -> Any:
        LOWERED.append(self.node)
        try:
            return self.function(*values, **options)
        finally:
            LOWERED.pop()


def node_being_written(interpreter: Any) -> str | None:
    """Return the node for which the loop body's present line was made, if any is being written."""
    # Outside of code generation there is a placeholder without the attribute.
    node = getattr(interpreter, "current_node", None)
    return node.meta.get(ORIGIN) if node is not None else None


def marked(line: str, mark: str) -> str:
    """Return a line of code with a comment behind it that names its node, where one may stand."""
    ends = line.rstrip()
    if not ends or ends.strip() in "{}" or "\n" in line or ends.endswith("\\"):
        return line
    return line + mark


@contextlib.contextmanager
def marks() -> Iterator[None]:
    """Make Inductor write behind each line that computes the node that it computes."""
    from torch._inductor import ir, loop_body
    from torch._inductor.utils import DeferredLineBase, IndentedBuffer
    from torch._inductor.virtualized import NullHandler, V

    made, store = ir.Loops.__post_init__, ir.ComputedBuffer.get_store_function
    create, write = loop_body.LightTracer.create_node, IndentedBuffer.writeline

    def after_making(self: Any) -> None:
        made(self)
        node = getattr(V.graph, "current_node", None)
        if node is not None and not isinstance(self.inner_fn, Remembering):
            self._post_init_setattr("inner_fn", Remembering(self.inner_fn, node.name))

    def get_store_function(self: Any) -> Any:
        inner = getattr(self.data, "inner_fn", None)
        origin = self.origin_node or getattr(self.data, "origin_node", None)
        node = inner.node if isinstance(inner, Remembering) else getattr(origin, "name", None)
        return Remembering(store(self), node) if node else store(self)

    def create_node(self: Any, *values: Any, **options: Any) -> Any:
        node = create(self, *values, **options)
        origin = LOWERED[-1] if LOWERED else node_being_written(V.interpreter)
        if origin and ORIGIN not in node.meta:
            node.meta[ORIGIN] = origin
        return node

    def writeline(self: Any, line: Any) -> Any:
        node = None if isinstance(V.kernel, NullHandler) else node_being_written(V.interpreter)
        if node:
            mark = f" #@@{node}" if "Triton" in type(V.kernel).__name__ else f" /*@@{node}*/"
            if isinstance(line, str):
                line = marked(line, mark)
            elif isinstance(line, DeferredLineBase) and line.line:
                line = line._new_line(marked(line.line, mark))
        return write(self, line)

    with (
        patch.object(ir.Loops, "__post_init__", after_making),
        patch.object(ir.ComputedBuffer, "get_store_function", get_store_function),
        patch.object(loop_body.LightTracer, "create_node", create_node),
        patch.object(IndentedBuffer, "writeline", writeline),
    ):
        yield


def operators_in(node: Any) -> list[str]:
    """Return the names of the graph's nodes that a scheduler node computes."""
    inner = node.node
    if node.is_extern() and inner is not None and inner.origin_node is not None:
        return [inner.origin_node.name]
    return sorted({o.name for part in node.get_nodes() if part.node is not None for o in part.node.get_origins()})


def node_lines(node: Any, indent: str = "") -> list[tuple[str, list[str], str]]:
    """Return the lines of a scheduler node: what it is, and what it does for one element."""
    inside = getattr(node, "snodes", None)
    name, held = node.get_name(), operators_in(node)
    if inside:
        head = f"{indent}{name}: {type(node).__name__}({', '.join(part.get_name() for part in inside)})"
        return [(head, held, name)] + [line for part in inside for line in node_lines(part, indent + "    ")]
    body = getattr(node, "_body", None)
    origin: dict[str, str] = {}
    for block in [body.root_block, *body.subblocks.values()] if body is not None else []:
        origin |= {part.name: part.meta[ORIGIN] for part in block.graph.nodes if ORIGIN in part.meta}
    kept = re.compile(r"\s*\w+(?:: \w+Node\(|\.node\.kernel = |\.group\.iteration = )")
    lines, in_body = [], False
    for text in node.debug_str().splitlines():
        in_body = text.startswith("class ") or (in_body and text.startswith(" "))
        if not text.strip() or not (in_body or kept.match(text)):
            continue
        step = re.match(r"\s+(\w+) = (?:ops\.|self\.)", text) if in_body else None
        nodes = ([origin[step[1]]] if step[1] in origin else []) if step else [] if in_body else held
        lines.append((indent + text, nodes, name))
    return lines


def all_lines(nodes: Sequence[Any]) -> list[tuple[str, list[str], str]]:
    """Return the lines of all scheduler nodes, a blank line between two."""
    lines: list[tuple[str, list[str], str]] = []
    for node in nodes:
        lines += ([("", [], "")] if lines else []) + node_lines(node)
    return lines


# ---------------------------------------------------------------- a GPU that is not there


class PretendedGpu:
    """What Inductor asks a GPU about itself: an H100's answers."""

    name = "pretended H100"
    major, minor = 9, 0
    multi_processor_count = 132
    warp_size = 32
    total_memory = 80 * 2**30
    L2_cache_size = 50 * 2**20
    max_threads_per_block = 1024
    max_threads_per_multi_processor = 2048
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 49152
    shared_memory_per_block_optin = 232448
    gcnArchName = ""


def pretended_driver() -> Any:
    """Return what Triton takes for its driver: it names a target and does nothing."""
    compiler = importlib.import_module("triton.backends.compiler")
    return SimpleNamespace(
        get_current_target=lambda: compiler.GPUTarget("cuda", 90, 32),
        get_active_torch_device=lambda: torch.device("cuda", 0),
        get_current_device=lambda: 0,
        get_device_interface=lambda: torch.cuda,
        get_benchmarker=lambda: None,
    )


@contextlib.contextmanager
def pretended_gpu() -> Iterator[None]:
    """Make Inductor and Triton believe in one GPU within a ``with`` block. Nothing may run in it."""
    import torch.utils._triton as triton_checks
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime.hints import DeviceProperties

    driver = importlib.import_module("triton.runtime").driver
    gpu = PretendedGpu()
    names = ["multi_processor_count", "major", "regs_per_multiprocessor", "warp_size"]
    names += ["max_threads_per_multi_processor", "max_threads_per_block"]
    known = {name: getattr(gpu, name) for name in names if name in DeviceProperties._fields}
    properties = DeviceProperties(type="cuda", index=0, cc=90, **known)
    always: dict[Any, dict[str, Any]] = {
        torch.cuda: {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "get_device_properties": lambda device=None: gpu,
            "_get_device_properties": lambda device=0: gpu,
            "get_device_capability": lambda device=None: (gpu.major, gpu.minor),
            "get_arch_list": lambda: ["sm_90"],
            "synchronize": lambda device=None: None,
            "_lazy_init": lambda: None,
        },
        CudaInterface: {
            "is_available": staticmethod(lambda: True),
            "get_device_properties": staticmethod(lambda device=None: gpu),
            "get_compute_capability": staticmethod(lambda device=None: "90"),
        },
        CudaInterface.Worker: {
            "get_device_properties": staticmethod(lambda device=None: gpu),
            "current_device": staticmethod(lambda: 0),
        },
        torch.version: {"cuda": "12.8"},
        DeviceProperties: {"create": classmethod(lambda cls, device: properties)},
    }
    # Whether there is a Triton for a GPU is remembered from before.
    remembered = [check for check in vars(triton_checks).values() if hasattr(check, "cache_clear")]
    with contextlib.ExitStack() as stack:
        for owner, answers in always.items():
            for name, answer in answers.items():
                stack.enter_context(patch.object(owner, name, answer, create=True))
        # Not set_active and reset_active: the latter looks for a GPU.
        stack.enter_context(patch.object(driver, "_active", pretended_driver()))
        for check in remembered:
            check.cache_clear()
            stack.callback(check.cache_clear)
        yield


def move_to_cuda(module: torch.fx.GraphModule, mode: Any) -> list[Any]:
    """Make a graph that was traced on a CPU one for CUDA, and return inputs for it that have no data."""
    from torch._inductor.compile_fx import FakeTensorProp

    cuda = torch.device("cuda", 0)
    for node in module.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": cuda}

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=cuda)

    examples = [moved(node.meta["val"]) for node in module.graph.nodes if node.op == "placeholder"]
    FakeTensorProp(module, mode).propagate(*examples)
    return examples


def refuse_cpu_operators(module: torch.fx.GraphModule) -> None:
    """Raise ValueError where a graph holds an operator that a GPU doesn't have."""
    for node in module.graph.nodes:
        if re.search(r"_for_cpu|mkldnn|onednn", str(node.target)):
            raise ValueError(f"{node.target} is an operator of the CPU alone: what is generated would mislead")


def generate(module: torch.fx.GraphModule, examples: Sequence[Any], options: Row, after_passes: Any) -> str:
    """Lower a graph for the GPU that is not there and return the generated module."""
    from torch._inductor import compile_fx as inductor
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    mode = torch._guards.detect_fake_mode(examples) or V.fake_mode
    inference = bool(options.get("is_inference"))
    with V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
        inductor._recursive_post_grad_passes(module, is_inference=inference)
        refuse_cpu_operators(module)
        inductor.view_to_reshape(module)
        inductor.record_original_output_strides(module)
        after_passes(module)
        lowering = GraphLowering(
            module,
            shape_env=mode.shape_env,
            example_inputs=examples,
            cpp_wrapper=False,
            aot_mode=False,
            is_inference=inference,
            is_backward=bool(options.get("is_backward")),
        )
        with pretended_gpu(), V.set_graph_handler(lowering):
            lowering.run(*examples)
            code, _ = lowering.codegen()
    return str(getattr(code, "value", code))


# ---------------------------------------------------------------- one compile, watched


class Watch:
    """Compiles an example once and keeps every stage. ``pretend`` generates code for CUDA instead of compiling."""

    def __init__(self, example: Example, device: str, pretend: bool) -> None:
        self.example, self.device, self.pretend = example, device, pretend
        self.graphs: list[Captured] = []
        self.codes: list[str] = []
        self.now: Pass | None = None

    def inner(self, captured: Captured, module: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Any:
        """Take the place of compile_fx_inner: one pass of one graph."""
        from torch._functorch.aot_autograd import make_boxed_func
        from torch._inductor import debug
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.virtualized import V

        name = "bw" if options.get("is_backward") else "fw"
        run = copy.deepcopy(module) if self.pretend else None
        if self.pretend and self.example.moved:
            mode = torch._guards.detect_fake_mode(examples) or V.fake_mode
            with V.set_fake_mode(mode):
                examples = move_to_cuda(module, mode)
        this = self.now = captured.passes[name] = Pass(name, read_graph(module))

        def after_passes(changed: torch.fx.GraphModule) -> None:
            this.post = read_graph(changed)

        if run is not None:
            self.save(generate(module, examples, options, after_passes))
            result: Any = make_boxed_func(run.forward)
        else:
            result = compile_fx_inner(module, examples, **options)
            after_passes(module)
        for handle, told in debug.create_kernel_information_json().items():
            this.kernels[handle] = list(told["post_grad_nodes"])
        return result

    def backend(self, module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        """Be the back end: keep Dynamo's graph and hand it to Inductor."""
        from torch._inductor.compile_fx import compile_fx

        captured = Captured(read_graph(module))
        self.graphs.append(captured)
        return compile_fx(module, examples, inner_compile=functools.partial(self.inner, captured))

    def on_bytecode(self, original: CodeType, rewritten: CodeType) -> None:
        """Keep the bytecode of the frame that was compiled just now."""
        if self.graphs and self.graphs[-1].rewritten is None:
            self.graphs[-1].original, self.graphs[-1].rewritten = original, rewritten

    def before_fusion(self, nodes: list[Any]) -> list[Any]:
        """Keep the scheduler's nodes before fusion."""
        assert self.now is not None
        self.now.before, self.now.nodes_before = all_lines(nodes), len(nodes)
        self.now.loops = {node.get_name(): operators_in(node) for node in nodes}
        return nodes

    def after_fusion(self, nodes: list[Any]) -> list[Any]:
        """Keep the scheduler's nodes after fusion, and which node made which buffer."""
        from torch._inductor.virtualized import V

        assert self.now is not None
        self.now.after, self.now.nodes_after = all_lines(nodes), len(nodes)
        self.now.fused = {part.get_name(): node.get_name() for node in nodes for part in node.get_nodes()}
        for buffer in V.graph.buffers:
            origin = buffer.get_origin_node()
            made_by = [origin] if origin is not None else buffer.get_origins()
            self.now.buffers[buffer.get_name()] = sorted(node.name for node in made_by)
        return nodes

    @contextlib.contextmanager
    def schedules(self) -> Iterator[None]:
        """Keep which loop nodes each kernel is written for."""
        from torch._inductor import debug
        from torch._inductor.codegen import cpp, triton

        told = debug.set_kernel_post_grad_provenance_tracing

        def tell(schedule: Any, kernel: str, is_extern: bool = False) -> Any:
            handle = told(schedule, kernel, is_extern)
            if is_extern:
                parts = [schedule.get_operation_name()]
            else:
                # Between the nodes stand marks where a reduction begins and ends.
                nodes = [node for node in schedule if hasattr(node, "get_nodes")]
                parts = [part.get_name() for node in nodes for part in node.get_nodes()]
            if self.now is not None:
                self.now.parts[f"{kernel}:{handle}"] = parts
            return handle

        with contextlib.ExitStack() as stack:
            for module in (debug, cpp, triton):
                stack.enter_context(patch.object(module, "set_kernel_post_grad_provenance_tracing", tell))
            yield

    def save(self, code: str) -> None:
        """Keep a generated module."""
        self.codes.append(code)
        if self.now is not None:
            self.now.code = code

    def run(self, keep: bool) -> list[list[Tensor]]:
        """Compile and call the function and return its results; with ``keep``, watch every stage."""
        import torch._inductor.config as settings
        from torch._dynamo.convert_frame import register_bytecode_hook
        from torch._inductor.fx_passes import joint_graph
        from torch._inductor.graph import GraphLowering
        from torch._subclasses.fake_tensor import FakeTensorMode

        # Out of a cache the graph would come finished, past every hook. Dynamo warns that it then remembers no sizes.
        chosen: Row = {"force_disable_caches": True, "compile_threads": 1}
        with warnings.catch_warnings(), contextlib.ExitStack() as stack:
            warnings.filterwarnings("ignore", message="dynamo_pgo force disabled")
            if keep:
                chosen |= {"trace.provenance_tracking_level": 1}
                chosen |= {"_pre_fusion_custom_pass": self.before_fusion, "_post_fusion_custom_pass": self.after_fusion}
                stack.enter_context(marks())
                stack.enter_context(self.schedules())
                stack.callback(register_bytecode_hook(self.on_bytecode).remove)
            stack.enter_context(settings.patch(chosen))
            stack.enter_context(patch.object(GraphLowering, "save_output_code", self.save))
            if self.pretend:
                # The patterns of the joint graph are prepared on the graph's device: there is none.
                prepare = joint_graph.lazy_init
                on_cpu = lambda device=None: prepare(torch.device("cpu"))  # noqa: E731
                stack.enter_context(patch.object(joint_graph, "lazy_init", on_cpu))
            fake = self.pretend and not self.example.moved
            if fake:
                stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            torch._dynamo.reset()
            compiled = torch.compile(self.example.function, backend=self.backend)
            device = "cpu" if self.pretend and not fake else self.device
            results = [call(self.example, compiled, values) for values in inputs(self.example, device, fake)]
            if keep:
                self.read_guards()
        return results

    def read_guards(self) -> None:
        """Keep the guards of each compiled frame, as torch prints them."""
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

        for graph in self.graphs:
            for entry in _debug_get_cache_entry_list(graph.original) if graph.original else []:
                if entry.code is graph.rewritten:
                    graph.guards = clean(str(entry.guard_manager))


# ---------------------------------------------------------------- the same function in eager and in aot_eager


@dataclass
class Operator:
    """One ATen operator that eager called.

    ``where`` is (line, which call of torch on that line), None for what is called outside of the function: the
    gradient that a backward starts with, or a read by Python.
    """

    text: str
    view: bool
    where: tuple[int, int] | None
    sequence: int
    backward: bool

    @property
    def counts(self) -> bool:
        """Whether it is part of the function, and computes."""
        return not self.view and (self.backward or self.where is not None)


class TorchCalls(TorchFunctionMode):
    """Notes which call of torch, on which line of a function, is being made: Dynamo has one node for each."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.code = function.__code__
        self.where: tuple[int, int] | None = None
        self.counts: collections.Counter[int] = collections.Counter()

    def __torch_function__(self, function: Any, types: Any, values: Any = (), options: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name != "__get__":  # x.shape and the like: nothing runs
            frame = sys._getframe(1)
            while frame is not None and frame.f_code is not self.code:
                frame = frame.f_back  # type: ignore[assignment]
            self.where = None
            if frame is not None and name != "__bool__":
                self.where = frame.f_lineno, self.counts[frame.f_lineno]
                self.counts[frame.f_lineno] += 1
        return function(*values, **(options or {}))


class Operators(TorchDispatchMode):
    """Notes each ATen operator, and for which call of torch it runs."""

    def __init__(self, calls: TorchCalls) -> None:
        super().__init__()
        self.calls = calls
        self.found: list[Operator] = []

    def __torch_dispatch__(self, function: Any, types: Any, values: Any = (), options: Any = None) -> Any:
        result = function(*values, **(options or {}))
        if function.namespace != "aten":
            return result  # what fake tensors ask
        node = torch._C._current_autograd_node()
        # The node of the backward was made just before: it has the number before the next.
        sequence = node._sequence_nr() if node is not None else torch.autograd._get_sequence_nr() - 1
        shown = [str(tuple(v.shape)) if isinstance(v, torch.Tensor) else str(v) for v in values]
        made = result if isinstance(result, tuple | list) else (result,)
        shapes = ", ".join(str(tuple(v.shape)) for v in made if isinstance(v, torch.Tensor))
        text = f"{function}({', '.join(shown)})" + (f" -> {shapes}" if shapes else "")
        where = None if node is not None else self.calls.where
        self.found.append(Operator(text, is_view(function), where, sequence, node is not None))
        return result


def watch_eager(example: Example, device: str, fake: bool) -> list[Operator]:
    """Return the operators of one call of a function, with no compiler in the way."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() if fake else contextlib.nullcontext():
        values = inputs(example, device, fake)[-1]
        calls = TorchCalls(example.function)
        with calls, Operators(calls) as operators:
            call(example, example.function, values)
    return operators.found


def watch_other(example: Example, device: str, fake: bool, backend: str) -> list[Other]:
    """Return what "aot_eager" or "cudagraphs" gets to run, for each graph of Dynamo."""
    from torch._dynamo.backends import cudagraphs, debugging
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: list[Other] = []
    run = debugging.boxed_nop

    def compiler(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        other = Other(read_graph(module))
        found.append(other)

        def keep(part: torch.fx.GraphModule, values: Any, *more: Any, **options: Any) -> Any:
            other.passes["bw" if "fw" in other.passes else "fw"] = read_graph(part)
            return run(part, values)

        if backend == "aot_eager":
            return debugging.aot_eager(module, examples, fw_compiler=keep, bw_compiler=keep)
        # As the back end "cudagraphs" calls AOTAutograd, without its recording, which needs a GPU.
        recorded = functools.partial(cudagraphs.aot_autograd, keep_inference_input_mutations=True)
        return recorded(fw_compiler=keep, bw_compiler=keep, inference_compiler=keep)(module, examples)

    torch._dynamo.reset()
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():
        compiled = torch.compile(example.function, backend=compiler)
        for values in inputs(example, device, fake):
            call(example, compiled, values)
    return found


# ---------------------------------------------------------------- links


def borrow(node: Node, this: Pass) -> None:
    """Give a node that a pass made without a note the origin of its neighbours.

    What only picks one of its results is a part of it and tells all; else the nearest neighbour tells which call of
    torch it belongs to.
    """
    assert this.post is not None
    post = this.post.nodes
    told = [post[name] for name in node.users + node.inputs if post[name].calls and post[name].lines]
    parts = [near for near in told if "getitem" in near.target and near.name in node.users]
    lenders = parts or told[:1]
    for near in lenders:
        node.lines, node.sequence = near.lines, near.sequence
        node.comes_from += [origin for origin in near.comes_from if parts or origin[0] not in this.aot.nodes]
    if lenders:
        this.approximate.append(f"{node.name}: from {', '.join(near.name for near in lenders)}")


def followed(this: Pass) -> dict[str, set[str]]:
    """Return for each node that Inductor got the nodes that its passes left in its place."""
    assert this.post is not None
    aot, post = this.aot.nodes, this.post.nodes
    became = {name: {name} & set(post) for name in aot}
    new = [node for name, node in post.items() if name not in aot and node.calls]
    for node in reversed(new):
        if not node.lines:
            borrow(node, this)
        for name in {name for name, _ in node.comes_from} & set(became):
            if name not in post:
                became[name].add(node.name)
    # What no note leads away from: a new node of the same call, else what used its result.
    for old in reversed([node for node in aot.values() if node.calls and not became[node.name]]):
        alike = {n.name for n in new if n.lines and (n.lines, n.sequence) == (old.lines, old.sequence)}
        became[old.name] = alike or set().union(*(became[name] for name in old.users if name in became))
        if became[old.name]:
            this.approximate.append(f"{old.name}: to {', '.join(sorted(became[old.name]))}")
    return became


def link(captured: Captured) -> dict[int, set[str]]:
    """Give every node its operators, and return those of each line of this file."""
    dynamo = captured.dynamo
    of_line: dict[int, set[str]] = collections.defaultdict(set)
    of_sequence: dict[int | None, set[str]] = collections.defaultdict(set)
    for name in ("fw", "bw"):
        if name not in captured.passes:
            continue
        this = captured.passes[name]
        assert this.post is not None
        became = followed(this)
        for node in this.post.nodes.values():
            node.keys = {f"{name}:{node.name}"} if node.op != "output" else set()
        for node in this.aot.nodes.values():
            node.keys = {f"{name}:{new}" for new in became.get(node.name, ())} if node.op != "output" else set()
            node.dynamo = {old for old, graph in node.comes_from if graph == dynamo.identity}
            number = re.search(r"PlainAOTInput\(idx=(\d+)\)", node.described)
            if node.op == "placeholder" and number and int(number[1]) < len(dynamo.placeholders()):
                node.dynamo = {dynamo.placeholders()[int(number[1])]}
            if node.calls and name == "fw":
                of_sequence[node.sequence] |= node.dynamo
            if node.calls and name == "bw" and not node.dynamo:
                every = of_sequence[node.sequence]
                node.dynamo = {old for old in every if dynamo.nodes[old].lines == node.lines} or every
        lost = [node.name for node in this.aot.nodes.values() if node.calls and not node.dynamo]
        this.approximate += [f"{node}: nothing tells what it came from" for node in lost]
        for node in this.aot.nodes.values():
            for old in node.dynamo & set(dynamo.nodes):
                dynamo.nodes[old].keys |= node.keys
            for line in node.lines if node.calls else ():
                of_line[line] |= node.keys
        if name == "bw":
            # What the forward has saved comes in under its old name.
            saved = captured.passes["fw"].post
            for graph in (this.aot, this.post):
                for node in graph.nodes.values():
                    if node.op == "placeholder" and saved is not None and node.name in saved.nodes:
                        node.keys |= {f"fw:{node.name}"}
    for node in dynamo.nodes.values():
        for line in node.lines if node.calls else ():
            of_line[line] |= node.keys
    for this in captured.passes.values():
        captured.approximate += [f"{this.name}:{note}" for note in this.approximate]
    return of_line


def link_other(other: Other, dynamo: Graph) -> None:
    """Give the nodes of another back end's graphs their operators, by the calls of torch that they come from."""
    of_sequence: dict[int | None, set[str]] = collections.defaultdict(set)
    inputs_of_graph = dynamo.placeholders()
    for name, graph in other.passes.items():
        for node in graph.nodes.values():
            node.dynamo = {old for old, origin in node.comes_from if origin == other.dynamo.identity}
            number = re.search(r"PlainAOTInput\(idx=(\d+)\)", node.described)
            if node.op == "placeholder" and number and int(number[1]) < len(inputs_of_graph):
                node.dynamo = {inputs_of_graph[int(number[1])]}
            if node.calls and name == "fw":
                of_sequence[node.sequence] |= node.dynamo
            if node.calls and name == "bw" and not node.dynamo:
                node.dynamo = of_sequence[node.sequence]
            of_calls = set().union(*(dynamo.nodes[old].keys for old in node.dynamo if old in dynamo.nodes))
            node.keys = {key for key in of_calls if key.startswith(name)}


# ---------------------------------------------------------------- texts with links


@dataclass
class Line:
    """A line of a stage, its operators, and the kernel that it is part of."""

    text: str
    keys: set[str] = field(default_factory=set)
    block: str = ""


@dataclass
class Launch:
    """One call of a kernel, or of a library function, in the wrapper."""

    name: str
    kind: str
    keys: set[str]
    nodes: list[str]
    reads: int
    writes: int


def source_lines(function: Callable[..., Any], of_line: dict[int, set[str]]) -> list[Line]:
    """Return the source of a function without its docstring."""
    texts, first = inspect.getsourcelines(function)
    definition = ast.parse(textwrap.dedent("".join(texts))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    told = definition.body[0]
    skipped = range(told.lineno, (told.end_lineno or told.lineno) + 1) if ast.get_docstring(definition) else range(0)
    return [Line(text.rstrip(), of_line.get(first + i, set())) for i, text in enumerate(texts) if i + 1 not in skipped]


def bytecode_lines(code: CodeType, keys_of: Callable[[dis.Instruction], set[str]]) -> list[Line]:
    """Return the instructions of a code object: line of the source, offset, name, argument."""
    starts = dict(dis.findlinestarts(code))
    lines = []
    for instruction in dis.get_instructions(code):
        started = starts.get(instruction.offset)
        mark = ">>" if instruction.is_jump_target else "  "
        argument = instruction.argrepr or ("" if instruction.arg is None else str(instruction.arg))
        text = f"{started or '':>4} {mark} {instruction.offset:>4} {instruction.opname:<26} {argument}"
        lines.append(Line(clean(text.rstrip()), keys_of(instruction)))
    return lines


Place = tuple[int, int, int, int]


def place_of(instruction: dis.Instruction) -> Place | None:
    """Return where in the source the expression of an instruction stands: (line, column) to (line, column)."""
    at = instruction.positions
    if at is None or None in (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset):
        return None
    return (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset)  # type: ignore[return-value]


def within(inner: Place, outer: Place) -> bool:
    """Tell whether one place lies in another."""
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def original_keys(code: CodeType, graph: Graph, of_line: dict[int, set[str]]) -> Callable[[dis.Instruction], set[str]]:
    """Return how to find the operators of an instruction of Python's.

    On each line the instructions that call something are paired with Dynamo's calls, in order. Any other belongs to
    the innermost such expression around it; where the two don't pair up, to all of the line.
    """
    on_line: dict[int, list[str]] = collections.defaultdict(list)
    for node in graph.nodes.values():
        if node.calls and node.lines:
            on_line[node.lines[-1]].append(node.name)
    calling: dict[int, list[Place]] = collections.defaultdict(list)
    for instruction in dis.get_instructions(code):
        place = place_of(instruction)
        if place and re.fullmatch(r"CALL|CALL_KW|CALL_FUNCTION_EX|BINARY_OP|COMPARE_OP|UNARY_\w+", instruction.opname):
            calling[place[0]].append(place)
    paired = {line for line, places in calling.items() if len(places) == len(on_line[line])}

    def keys_of(instruction: dis.Instruction) -> set[str]:
        place = place_of(instruction)
        if place is None or place[0] not in paired:
            return of_line.get(place[0], set()) if place else set()
        around = [i for i, outer in enumerate(calling[place[0]]) if within(place, outer)]
        # Inner expressions are called before outer ones. What is around none of them takes the result of the last.
        return graph.nodes[on_line[place[0]][around[0] if around else -1]].keys

    return keys_of


def rewritten_keys(graph: Graph) -> Callable[[dis.Instruction], set[str]]:
    """Return how to find the operators of an instruction that Dynamo wrote: its inputs, the graph, its results."""
    every: set[str] = set().union(*(node.keys for node in graph.nodes.values()))
    results: set[str] = set()
    for node in graph.nodes.values():
        if node.op == "output":
            results = set().union(*(graph.nodes[name].keys for name in node.inputs))

    def keys_of(instruction: dis.Instruction) -> set[str]:
        argument = instruction.argrepr
        if "__compiled_fn" in argument:
            return every
        if argument.startswith("graph_out") or instruction.opname == "RETURN_VALUE":
            return results
        node = graph.nodes.get(f"l_{argument}_") if instruction.opname.startswith("LOAD_FAST") else None
        return node.keys if node is not None else set()

    return keys_of


def guard_lines(text: str, graph: Graph) -> list[Line]:
    """Return the guards as torch prints them, without how each value is reached; equal ones are counted."""
    kind = "DIMENSION_DYNAMIC_MARKING_GUARD"
    lines: list[Line] = []
    alike = 0
    for guard in [*text.strip().splitlines(), ""]:
        shown = re.sub(r", accessed_by=.*?(?=, type=)|, tag_safe=\([^)]*\)", "", guard)
        shown = re.sub(r" against \{.*\}", " against {...}", shown)
        shown = re.sub(r"\s{2,}#", "  #", shown).rstrip()
        if kind in shown and lines and kind in lines[-1].text:
            alike += 1
            continue
        if alike:
            indent = lines[-1].text.partition("+-")[0]
            lines.append(Line(f"{indent}+- ... and {alike} more of {kind}", lines[-1].keys))
            alike = 0
        if shown:
            names = {f"l_{name}_" for name in re.findall(r"L\['(\w+)'\]", shown)}
            called = re.search(r"G\['\w+'\]\.(\w+)", shown)
            if called:
                named = re.compile(rf"\b{called[1]}\b")
                names |= {name for name, node in graph.nodes.items() if node.calls and named.search(node.target)}
            keys = set().union(*(graph.nodes[name].keys for name in names if name in graph.nodes))
            lines.append(Line(shown, keys))
    return lines


def graph_lines(graph: Graph) -> list[Line]:
    """Return the text of an FX graph. A comment belongs to the nodes below it, the signature to the inputs."""
    lines: list[Line] = []
    above: Line | None = None
    for text in graph.text.strip("\n").splitlines():
        line = Line(text)
        assigned = re.match(r"\s+(\w+)(?:: *\"[^\"]*\")? = \S", text)
        if re.match(r"\s*# (File:|No stacktrace)", text):
            above = line
        elif assigned and assigned[1] in graph.nodes:
            line.keys = graph.nodes[assigned[1]].keys
            if above is not None:
                above.keys = above.keys | line.keys
        elif "def forward(" in text:
            line.keys = set().union(*(graph.nodes[name].keys for name in graph.placeholders()))
        elif re.match(r"\s*return ", text):
            (output,) = (node for node in graph.nodes.values() if node.op == "output")
            line.keys = set().union(*(graph.nodes[name].keys for name in output.inputs))
        lines.append(line)
    return lines


def eager_lines(operators: Sequence[Operator], graph: Graph) -> list[Line]:
    """Return the operators that eager called, each with those of the call of torch that it runs for."""
    on_line: dict[int, list[str]] = collections.defaultdict(list)
    for node in graph.nodes.values():
        if node.calls and node.lines:
            on_line[node.lines[-1]].append(node.name)
    of_sequence: dict[int, set[str]] = {}
    lines = []
    for operator in operators:
        calls: set[str] = set()
        if operator.backward:
            calls = of_sequence.get(operator.sequence, set())
        elif operator.where is not None:
            line, position = operator.where
            names = on_line.get(line, [])
            calls = {names[position]} if position < len(names) else set(names)
            of_sequence[operator.sequence] = of_sequence.get(operator.sequence, set()) | calls
        every: set[str] = set().union(*(graph.nodes[name].keys for name in calls))
        prefix = "bw:" if operator.backward else "fw:"
        lines.append(Line(operator.text, {key for key in every if key.startswith(prefix)}))
    return lines


def ir_lines(found: Sequence[tuple[str, list[str], str]], this: Pass) -> list[Line]:
    """Return the lines of loop IR with their operators."""
    assert this.post is not None
    known = this.post.nodes
    return [
        Line(text, {f"{this.name}:{name}" for name in names if name in known}, block) for text, names, block in found
    ]


CALL = re.compile(
    r"(?:^|= |\s)(?:(?P<library>extern_kernels\.\w+|torch\.ops\.[\w.]+)"
    r"|(?P<kernel>cpp_fused\w*|triton_\w+(?=\.run)))(?:\.run)?\("
)


def code_lines(this: Pass) -> tuple[list[Line], list[Line], list[Launch]]:
    """Return the kernels and the wrapper of a generated module with their operators, and each call of a kernel."""
    prefix = f"{this.name}:"
    of_kernel: dict[str, set[str]] = collections.defaultdict(set)
    for name, nodes in this.kernels.items():
        of_kernel[name.rpartition(":")[0]] |= {prefix + node for node in nodes}
    kernels: list[Line] = []
    wrapper: list[Line] = []
    launches: list[Launch] = []
    block, shown, indent, handle = "", True, -1, ""
    for text in this.code.splitlines():
        start = re.match(r"(\w+) = async_compile\.(cpp_pybinding|cpp|triton)\(", text)
        plain = MARK.sub("", text)
        if start:
            block, shown = start[1], start[2] != "triton"
            kernels += [Line("")] if kernels else []
            kernels.append(Line(plain if shown else f"# {block}", of_kernel[block], block))
        elif block and re.match(r"'''", text):
            block = ""
        elif block:
            shown = shown or plain.startswith("@triton.jit")
            keys = {prefix + (cpp or python) for cpp, python in MARK.findall(text)}
            if "void  kernel(" in plain or re.match(r"def \w+\(", plain):
                keys = of_kernel[block]
            if shown and plain.strip():
                kernels.append(Line(plain, keys, block))
        elif re.match(r"\s*def call\(", text):
            indent = len(text) - len(text.lstrip())
            wrapper.append(Line(plain[indent:], input_keys(plain, this)))
        elif indent >= 0 and text.strip() and len(text) - len(text.lstrip()) <= indent:
            indent = -1
        elif indent >= 0:
            told = re.search(r"\[Provenance debug handles\] ([\w.]+:\d+)", text)
            handle = told[1] if told else handle
            if not told:
                wrapper.append(wrapper_line(plain[indent:], handle, this, of_kernel, launches))
    while wrapper and not wrapper[-1].text.strip():
        wrapper.pop()
    link_accumulators(kernels)
    for launch in launches:
        if launch.kind == "fused":
            code = "\n".join(line.text for line in kernels if line.block == launch.name)
            launch.reads, launch.writes = arguments_of(code)
    return kernels, wrapper, launches


def link_accumulators(kernel: Sequence[Line]) -> None:
    """Give a line that starts an accumulator the operator of the line that uses it next."""
    for i, line in enumerate(kernel):
        name = re.search(r"\b(tmp_acc\w+) = ", line.text)
        if name and not line.keys:
            uses = re.compile(rf"\b{name[1]}\w*")
            line.keys = next((after.keys for after in kernel[i + 1 :] if after.keys and uses.search(after.text)), set())


def input_keys(text: str, this: Pass) -> set[str]:
    """Return the operators of the graph's inputs that a line of the wrapper names."""
    assert this.post is not None
    known = this.post.nodes
    named = [known[word] for word in re.findall(r"\w+", text) if word in known]
    return set().union(*(node.keys for node in named if node.op == "placeholder"))


def wrapper_line(text: str, handle: str, this: Pass, of_kernel: dict[str, set[str]], launches: list[Launch]) -> Line:
    """Return one line of the wrapper; a call of a kernel or of the library is added to ``launches``."""
    assert this.post is not None
    prefix = f"{this.name}:"
    found = CALL.search(text) if not text.lstrip().startswith("#") else None
    if found is None:
        made = {prefix + node for word in re.findall(r"\bbuf\d+\b", text) for node in this.buffers.get(word, [])}
        return Line(text, made | input_keys(text, this))
    if found["kernel"]:
        name = found["kernel"]
        launches.append(Launch(name, "fused", set(of_kernel[name]), this.parts.get(handle, []), 0, 0))
        return Line(text, of_kernel[name], name)
    keys = {prefix + node for node in this.kernels.get(handle, [])}
    nodes = [this.post.nodes[key.removeprefix(prefix)] for key in keys]
    reads = {name for node in nodes for name in node.inputs}
    launches.append(Launch(found["library"], "extern", keys, this.parts.get(handle, []), len(reads), 1))
    return Line(text, keys, found["library"])


def arguments_of(kernel: str) -> tuple[int, int]:
    """Return how many buffers a kernel reads and how many it writes, by the names of its arguments."""
    signature = re.search(r"(?:void  kernel|def \w+)\((.*?)\)", kernel, re.DOTALL)
    names = set(re.findall(r"\b((?:in_out|in|out)_ptr\d+)\b", signature[1] if signature else ""))
    written = {name for name in names if "out" in name}
    return len({name for name in names if name.startswith("in_")}), len(written)


def step_lines(captured: Captured) -> list[Line]:
    """Return the source of the training step: the call is the forward, backward() the backward."""
    texts, first = inspect.getsourcelines(step)
    of_line: dict[int, set[str]] = {}
    for name, sign in (("fw", " = function("), ("bw", ".backward(")):
        this = captured.passes.get(name)
        if this is not None and this.post is not None:
            every: set[str] = set().union(*(node.keys for node in this.post.nodes.values() if node.calls))
            of_line |= {first + i: every for i, text in enumerate(texts) if sign in text}
    return source_lines(step, of_line)


def stages_of(captured: Captured, example: Example, operators: Sequence[Operator]) -> dict[str, list[Line]]:
    """Return the lines of every stage of a graph, with their operators."""
    of_line = link(captured)
    for other in captured.others.values():
        link_other(other, captured.dynamo)
    dynamo = captured.dynamo
    source = source_lines(example.function, of_line)
    source[0].keys = set().union(*(dynamo.nodes[name].keys for name in dynamo.placeholders()))
    if example.trained:
        source += [Line(""), *step_lines(captured)]
    stages = {"source": source}
    if captured.original is not None:
        keys_of = original_keys(captured.original, dynamo, of_line)
        stages["bytecode"] = bytecode_lines(captured.original, keys_of)
    stages["guards"] = guard_lines(captured.guards, dynamo)
    stages["dynamo"] = graph_lines(dynamo)
    if captured.rewritten is not None:
        stages["rewritten"] = bytecode_lines(captured.rewritten, rewritten_keys(dynamo))
    stages["eager"] = eager_lines(operators, dynamo)
    for backend, other in captured.others.items():
        for name, graph in other.passes.items():
            stages[f"{backend}_{name}"] = graph_lines(graph)
    for name, this in captured.passes.items():
        assert this.post is not None
        stages[f"aot_{name}"], stages[f"post_{name}"] = graph_lines(this.aot), graph_lines(this.post)
        stages[f"ir_pre_{name}"], stages[f"ir_post_{name}"] = ir_lines(this.before, this), ir_lines(this.after, this)
        stages[f"kernel_{name}"], stages[f"wrapper_{name}"], _ = code_lines(this)
    return {name: lines for name, lines in stages.items() if lines}


# ---------------------------------------------------------------- rows


def plain_code(code: str) -> str:
    """Return a generated module without our marks, and without comments: they tell one compile from another."""
    lines = [MARK.sub("", line) for line in code.splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def worst_error(example: Example, device: str, results: Sequence[Sequence[Tensor]]) -> float:
    """Return the largest error of the results of all calls against eager in float64."""
    worst = 0.0
    for values, got in zip(inputs(example, device), results, strict=True):
        exact = [v.detach().double().requires_grad_(v.requires_grad) for v in values]
        for wanted, value in zip(call(example, example.function, exact), got, strict=True):
            error = (value.double() - wanted).abs().max() / wanted.abs().max()
            worst = max(worst, float(error)) if error == error else float("inf")
    return worst


def packed(lines: Iterable[Line]) -> str:
    """Return the links of a stage: for each line its operators and its kernel, in one string."""
    return json.dumps([" ".join(sorted(line.keys) + ([f"@{line.block}"] if line.block else [])) for line in lines])


def language_of(stage: str, target: str) -> str:
    """Return the language of a stage's text."""
    if stage.startswith(("ir_", "guards", "bytecode", "rewritten", "eager")):
        return "text"
    return "cpp" if stage.startswith("kernel") and target == "cpu" else "python"


def stage_rows(stages: dict[str, list[Line]], common: Row) -> list[Row]:
    """Return a row for each stage of a graph, in order."""
    rows = []
    for position, (stage, lines) in enumerate(stages.items(), start=1):
        row = {"kind": "stage", **common, "position": position, "stage": stage}
        row |= {"language": language_of(stage, common["target"]), "lines": len(lines)}
        rows.append(row | {"text": "\n".join(line.text for line in lines), "links": packed(lines)})
    return rows


def inputs_of(name: str, this: Pass) -> set[str]:
    """Return which inputs of Dynamo's graph an input of a pass is: at most one."""
    node = this.aot.nodes.get(name)
    return node.dynamo if node is not None and node.op == "placeholder" else set()


def graph_row(captured: Captured, common: Row) -> Row:
    """Return the row of a graph: its operators, its kernels, and how many there are of what."""
    passes = list(captured.passes.values())
    operators: dict[str, Row] = {}
    kernels: list[Row] = []
    loops: list[Row] = []
    aten = 0
    for this in passes:
        assert this.post is not None
        aten += len(this.aot.computing())
        for node in this.post.nodes.values():
            if node.op != "output":
                named = [re.sub(r"^l_(.*)_$", r"\1", old) for old in inputs_of(node.name, this)]
                operator = {"op": node.op, "target": clean(node.target), "input": named[0] if named else None}
                operators[f"{this.name}:{node.name}"] = operator
        for launch in code_lines(this)[2]:
            told = {"name": launch.name, "pass": this.name, "kind": launch.kind, "operators": sorted(launch.keys)}
            kernels.append(told | {"nodes": launch.nodes, "reads": launch.reads, "writes": launch.writes})
        for name, held in this.loops.items():
            held = [f"{this.name}:{operator}" for operator in held if operator in this.post.nodes]
            loops.append({"name": name, "pass": this.name, "operators": held, "fused": this.fused[name]})
    title = captured.original.co_name if captured.original is not None else ""
    row = {"kind": "graph", **common, "title": title}
    row |= {"operators": json.dumps(operators), "kernels": json.dumps(kernels), "nodes": json.dumps(loops)}
    row |= {"torch_calls": sum(node.calls for node in captured.dynamo.nodes.values()), "aten_operators": aten}
    row |= {"loop_nodes": sum(p.nodes_before for p in passes), "fused_nodes": sum(p.nodes_after for p in passes)}
    return row | {"launches": len(kernels), "approximate": json.dumps(captured.approximate)}


def backend_rows(graphs: list[Captured], operators: Sequence[Operator], example: Example, common: Row) -> list[Row]:
    """Return for each back end what one call of the function runs and launches."""
    # Where the shape changes, one call goes through one of the graphs.
    called = graphs[-1:] if example.rows else graphs
    parts = {
        "aot_eager": [part for graph in called for part in graph.others["aot_eager"].passes.values()],
        "inductor": [this.post for graph in called for this in graph.passes.values() if this.post is not None],
        "cudagraphs": [part for graph in called for part in graph.others["cudagraphs"].passes.values()],
    }
    run = {"eager": sum(operator.counts for operator in operators)}
    run |= {backend: sum(len(graph.computing()) for graph in graphs) for backend, graphs in parts.items()}
    launches = dict(run)
    launches["inductor"] = sum(len(code_lines(this)[2]) for graph in called for this in graph.passes.values())
    if common["target"] == "cuda":
        # One graph is replayed for each pass that computes anything. On a CPU the back end records nothing.
        launches["cudagraphs"] = sum(bool(graph.computing()) for graph in parts["cudagraphs"])
    return [
        {"kind": "backend", **common, "backend": name, "operators_run": run[name], "launches": launches[name]}
        for name in BACKENDS
    ]


def trouble_row(name: str, target: str, common: Row, status: str, note: str) -> Row:
    """Return the row of an example that has nothing to show for a target, with the reason."""
    return {"kind": "graph", "example": name, "target": target, "graph": 1, **common, "status": status, "note": note}


def capture(name: str, target: str, common: Row) -> list[Row]:
    """Return the rows of one example for one target."""
    example = EXAMPLES[name]
    pretend = target == "cuda" and not torch.cuda.is_available()
    fake = pretend and not example.moved
    device = "cpu" if pretend and example.moved else target
    watch, plain = Watch(example, target, pretend), Watch(example, target, pretend)
    results = watch.run(keep=True)
    if not watch.graphs:
        return [trouble_row(name, target, common, "failed", NO_GRAPH)]
    # The hooks are gone: what is compiled now is what anyone gets.
    afterwards = plain.run(keep=False)
    error = None if pretend else max(worst_error(example, device, got) for got in (results, afterwards))
    same = [*map(plain_code, watch.codes)] == [*map(plain_code, plain.codes)]
    operators = watch_eager(example, device, fake)
    for backend in ("aot_eager", "cudagraphs"):
        for graph, other in zip(watch.graphs, watch_other(example, device, fake, backend), strict=True):
            graph.others[backend] = other
    rows: list[Row] = []
    told = {"example": name, "target": target}
    for number, graph in enumerate(watch.graphs, start=1):
        stages = stages_of(graph, example, operators)
        row = graph_row(graph, told | {"graph": number})
        row |= {"origin": "generated, not run" if pretend else "compiled and run"}
        row |= {"max_rel_error": error, "same_code": same}
        rows += [row, *stage_rows(stages, told | {"graph": number})]
    rows += backend_rows(watch.graphs, operators, example, told)
    status, note = "ok", None
    if error is not None and not error <= TOLERANCE:  # also true for NaN
        status, note = "wrong", f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
    elif not same:
        status, note = "wrong", "The generated code is not that of a plain compile: the hooks have changed it."
    return [row | common | {"status": status, "note": note} for row in rows]


def run(
    *, examples: Sequence[str] = tuple(EXAMPLES), targets: Sequence[str] = ("cpu", "cuda"), threads: int = 1
) -> list[Row]:
    """Capture each example for each target and return the rows (columns: module docstring)."""
    torch.set_num_threads(threads)
    rows: list[Row] = []
    for name in examples:
        for target in targets:
            common = {"device": target, "threads": threads}
            if target == "cuda":
                real = torch.cuda.is_available()
                common["device"] = torch.cuda.get_device_name(0) if real else PretendedGpu.name
            if not torch.__version__.startswith(f"{WRITTEN_FOR}."):
                note = OTHER_TORCH.format(WRITTEN_FOR, torch.__version__)
                rows.append(trouble_row(name, target, common, "unavailable", note))
            elif target == "cuda" and importlib.util.find_spec("triton") is None:
                rows.append(trouble_row(name, target, common, "unavailable", NO_TRITON))
            else:
                try:
                    rows += capture(name, target, common)
                except Exception as error:
                    # Dynamo names the back end in the first line, and what happened in the second.
                    told = " ".join(str(error).partition("\n\n")[0].split())
                    note = clean(f"{type(error).__name__}: {told}")[:300]
                    rows.append(trouble_row(name, target, common, "failed", note))
    return rows


def main(arguments: Sequence[str]) -> None:
    """Capture and print every stage of the examples that are named, else of all."""
    for row in run(examples=tuple(arguments) or tuple(EXAMPLES)):
        place = f"{row['example']}, {row['target']}"
        if row["status"] != "ok":
            print(f"\n# ==== {place}: {row['status']}: {row['note']}")
        if row["kind"] == "stage":
            print(f"\n# ---- {place}, graph {row['graph']}, {row['position']}. {row['stage']}\n{row['text']}")
        elif row["kind"] == "backend":
            print(f"\n# {place}: {row['backend']} runs {row['operators_run']} operators in {row['launches']} launches")


if __name__ == "__main__":
    main(sys.argv[1:])
