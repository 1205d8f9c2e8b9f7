# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 2400
# value = 20
# on_request = true
#
# [tool.kitchen.files]
# tool = "measuring/compare_backends"
# tvm = "third_party/tvm_routes"
# onnxruntime = "third_party/onnxruntime_backend"
# models = [
#     "models/mlp", "models/resnet18", "models/transformer_encoder", "models/gpt_decoder", "models/pointwise_chain",
# ]
# ///
"""TVM, OpenVINO, IREE, ONNX Runtime and zentorch beside Inductor on real models: right or wrong, and how fast?

    python on_models.py mlp.py resnet18.py

Each model is a file with ``build() -> (model, example inputs)``. compare_backends.py of this site does all the
measuring (its docstring says how) and must lie in the same folder: each back end alone in a fresh process, checked
against float64, then in turns in one process, beside an A/A pair of the model that is not compiled. OpenVINO and
zentorch have processes of their own, with such a pair: loading them changes what the others do.

This file only says what the back ends are; those of TVM and ONNX Runtime are taken from tvm_routes.py and
onnxruntime_backend.py. All work in float32 on one thread, told so where a back end would choose otherwise.

The back ends
    tvm            Relax: export of the captured graph, TVM's default pipeline, *not tuned*
    openvino       the package's own back end with ``aot_autograd``, held to float32 (it would take bfloat16 where the
                   CPU has it), and not allowed to hand what it can't take to Inductor
    iree           turbine_cpu of iree-turbine
    onnxruntime    export of each captured graph to ONNX, one session for each
    zentorch       AMD's back end for its CPUs, with ZENDNNL_MATMUL_WEIGHT_CACHE=0, else it overwrites the weights

In training: TVM and ONNX Runtime through AOTAutograd, OpenVINO and zentorch as they are, IREE not at all.
A package that is not installed gives rows that say what to install.

Columns: those of the tool, and
    package            name and version of the back end's package
    operators          ATen operators that a step still ran one by one: what the back end left to PyTorch
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

Row = dict[str, Any]
Tensors = Sequence[Any]
Compiled = Callable[..., Any]


class BackEnd(NamedTuple):
    """One back end: its package, what to install, and the functions for the two workloads (None: it has none).

    ``file`` is the keyword of run() that names the file of the functions; "" is this file. One that is ``apart`` is
    timed in processes without the others, against the plain model there: loading it changes what others do.
    ``environment`` is what those processes need besides.
    """

    package: str
    install: str
    inference: str
    training: str | None
    file: str = ""
    apart: bool = False
    environment: tuple[tuple[str, str], ...] = ()


BACK_ENDS: dict[str, BackEnd] = {
    "tvm": BackEnd("apache-tvm", "'apache-tvm>=0.27'", "through_tvm_inference", "through_tvm_training", "tvm"),
    "openvino": BackEnd("openvino", "'openvino>=2026.4'", "wrap:openvino", "wrap:openvino", apart=True),
    "iree": BackEnd("iree-turbine", "'iree-turbine>=3.9' iree-base-compiler iree-base-runtime", "iree", None),
    "onnxruntime": BackEnd(
        "onnxruntime",
        "'onnxruntime>=1.32' 'onnxscript>=0.7'",
        "through_onnxruntime",
        "through_onnxruntime",
        "onnxruntime",
    ),
    "zentorch": BackEnd(
        "zentorch",
        "zentorch (its first two numbers are those of torch)",
        "zentorch",
        "zentorch",
        apart=True,
        environment=(("ZENDNNL_MATMUL_WEIGHT_CACHE", "0"),),
    ),
}

#: With the fast path of torch.nn an encoder layer is one operator, and no back end has anything to compile.
FACTORIES = {"transformer_encoder": "build_without_fast_path"}
TRAINED = ("mlp", "pointwise_chain")
#: A back end that has no result after so many seconds is a row that says so.
LIMIT_S = 150.0
#: Each back end's own library is told to use so many threads: as many as the tool gives torch.
THREADS = 1


# ---------------------------------------------------------------- back ends that need a word before they are fair


def openvino(model: torch.nn.Module) -> Compiled:
    """OpenVINO in float32 on THREADS threads; what it can't take is an error and not, silently, Inductor's work.

    Loading it sets ``inline_inbuilt_nn_modules`` of Dynamo for the whole process (torch 2.13 ignores it, older ones
    don't), and its options stay for later compiles: so it is loaded before anything is traced, apart from others.
    """
    from openvino.frontend.pytorch.torchdynamo import backend

    def refuse(*_: Any, **__: Any) -> Compiled:
        cause = sys.exception()
        raise RuntimeError(f"OpenVINO can't take this graph and would hand it to Inductor: {cause}") from cause

    backend.compile_fx = refuse  # the name in OpenVINO's module
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS}
    compiled: Compiled = torch.compile(model, backend="openvino", options={"aot_autograd": True, "config": config})
    return compiled


def iree(graph: torch.fx.GraphModule, inputs: Tensors) -> Compiled:
    """IREE's turbine_cpu on THREADS threads: a flag of its runtime, read when the process first uses it."""
    from iree.runtime import flags

    flags.parse_flags(f"--task_topology_group_count={THREADS}")
    from torch._dynamo.backends.registry import lookup_backend

    compiled: Compiled = lookup_backend("turbine_cpu")(graph, inputs)
    return compiled


def zentorch(graph: torch.fx.GraphModule, inputs: Tensors) -> Compiled:
    """zentorch, whose name is known to torch once the package is imported."""
    import zentorch as _registers  # noqa: F401
    from torch._dynamo.backends.registry import lookup_backend

    compiled: Compiled = lookup_backend("zentorch")(graph, inputs)
    return compiled


# ---------------------------------------------------------------- what is measured


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def load(tool: str) -> ModuleType:
    """Return the comparison tool as a module."""
    spec = importlib.util.spec_from_file_location("compare_backends", tool)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{tool}: is no Python file: the first argument is compare_backends.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def chosen(names: Sequence[str], trains: bool, files: dict[str, str]) -> list[dict[str, str]]:
    """Return the variants of the back ends that are installed and have this workload: ``{name: variant}``, by group."""
    together: dict[str, str] = {"inductor": "inductor"}
    apart: list[dict[str, str]] = []
    for name in names:
        known = BACK_ENDS[name]
        function = known.training if trains else known.inference
        if function and version_of(known.package):
            wrap, _, function = function.rpartition(":")
            variant = f"{wrap}{':' if wrap else ''}{Path(files[known.file]).resolve()}:{function}"
            if known.apart:
                apart.append({name: variant})
            else:
                together[name] = variant
    return [together, *apart]


@contextlib.contextmanager
def surroundings(group: dict[str, str]) -> Iterator[None]:
    """Set the environment variables that the back ends of a group need, for the processes started meanwhile."""
    wanted = {key: value for name in group if name in BACK_ENDS for key, value in BACK_ENDS[name].environment}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def unavailable(compare: ModuleType, name: str, like: Row) -> Row:
    """Return the row of a back end whose package is not installed; model and workload are those of ``like``."""
    known = BACK_ENDS[name]
    row: Row = asdict(compare.Row(name, f"torch.compile(model, backend={known.inference})", like["model"]))
    note = f"the package {known.package} is not installed: pip install {known.install}"
    kept = {key: like[key] for key in ("workload", "device", "threads", "warnings")}
    return row | kept | {"status": "unavailable", "note": note, "package": known.package}


def run(
    *,
    tool: str,
    models: Sequence[str],
    tvm: str,
    onnxruntime: str,
    back_ends: Sequence[str] = tuple(BACK_ENDS),
    training: Sequence[str] = TRAINED,
    seconds: float = 1.5,
    processes: int = 4,
    steps: int = 10_000,
) -> list[Row]:
    """Compare the back ends with Inductor and no compiling; one row for each model, workload and variant.

    ``tool``, ``tvm``, ``onnxruntime`` and ``models`` are paths; ``training`` names the models (without ``.py``) that
    are trained too. A variant steps for ``seconds``, spread over at most so many ``processes``.
    """
    unknown = sorted(set(back_ends) - set(BACK_ENDS))
    if unknown:
        raise ValueError(f"no back end {unknown[0]!r} here; there are {', '.join(BACK_ENDS)}")
    files = {"": __file__, "tvm": tvm, "onnxruntime": onnxruntime}
    compare = load(tool)
    rows: list[Row] = []
    for model in models:
        stem = Path(model).stem
        for trains in (False, True) if stem in training else (False,):
            groups = chosen(back_ends, trains, files)
            if trains and groups == [{"inductor": "inductor"}]:
                continue
            made: list[Row] = []
            for group in groups:
                settings = compare.Settings(
                    f"{model}:{FACTORIES.get(stem, 'build')}",
                    variants=tuple(group.values()),
                    training=trains,
                    seconds=seconds,
                    processes=processes,
                    steps=steps,
                    threads=THREADS,
                    timeout=LIMIT_S,
                )
                with surroundings(group):
                    report = compare.measure(settings)
                if report.interrupted:
                    raise KeyboardInterrupt
                names = {compare.parse_variant(variant, {}).label: name for name, variant in group.items()}
                found = [named(asdict(replace(row, log=None)), names, report.warnings) for row in report.rows]
                # The plain model is timed in every group; its row is that of the first.
                made += found if group is groups[0] else [row for row in found if row["variant"] in group]
            rows += made
            absent = [name for name in back_ends if not version_of(BACK_ENDS[name].package)]
            rows += [unavailable(compare, name, made[0]) for name in absent if not trains or BACK_ENDS[name].training]
    return rows


def named(row: Row, names: dict[str, str], warnings: Sequence[str]) -> Row:
    """Return a row of the tool under the back end's name, with its package."""
    variant = row["variant"]
    name = names.get(variant)
    package = BACK_ENDS[name].package if name in BACK_ENDS else "torch"
    version = version_of(package) if name in BACK_ENDS else torch.__version__
    if name in BACK_ENDS:
        function = variant.rpartition(":")[2]
        call = f"{function}(model)" if variant.startswith("wrap:") else f"torch.compile(model, backend={function})"
        row |= {"variant": name, "call": call}
    return row | {"package": f"{package} {version}", "warnings": "; ".join(warnings) or None}


def beside(file: str) -> str:
    """Return the path of a file that must lie in the same folder."""
    path = Path(__file__).resolve().with_name(file)
    if not path.is_file():
        raise SystemExit(f"{file} is needed in the folder of {Path(__file__).name}: copy it there")
    return str(path)


def main(arguments: Sequence[str]) -> None:
    """Compare on the models of the command line and print a table."""
    if not arguments:
        raise SystemExit("usage: python on_models.py MODEL.py [MODEL.py ...], each with build() -> (model, inputs)")
    for file in arguments:
        if not Path(file).is_file():
            raise SystemExit(f"there is no file {file}")
    tool, tvm, onnx = map(beside, ("compare_backends.py", "tvm_routes.py", "onnxruntime_backend.py"))
    stems = [Path(file).stem for file in arguments]
    for row in run(tool=tool, models=arguments, tvm=tvm, onnxruntime=onnx, training=stems):
        times = "" if row["step_us"] is None else f"{row['step_us']:10.1f} us {row['speedup_ratio'] or 1:7.3f}x"
        print(
            f"{row['model']:26} {row['workload']:10} {row['variant']:12} {row['status']:11} {times} {row['note'] or ''}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
