# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 60
# value = 60
# ///
"""What recording and replaying means, on any machine: a recorder of a dozen lines, for operators on the CPU.

A CUDA graph keeps kernels together with the addresses that they read and write. The Recorder here does the same one
level up: below autograd and above the CPU's kernels it keeps every operator that PyTorch dispatches, together with
the tensors that it read and the tensor that it wrote. A replay runs the kept operators on those same tensors. It is
no faster than the original, for on a CPU an operator is launched by calling it; it shows what follows from fixed
addresses, and why code around a CUDA graph looks as it does.

Source of the mechanism: ``torch.utils._python_dispatch.TorchDispatchMode``. The same cases on a GPU, with real CUDA
graphs, are in overwritten_output.py.

Columns
    case               what is tried (below); the function is relu(2 x + 1) unless the case says otherwise
    written            the lines that try it
    status, note       "ok"
    device, threads    always "cpu"
    operators          how many operators were recorded
    expected, got      the numbers that ought to come out and those that did
    right              whether they agree
    error              what was raised, or "nothing raised"
Cases
    copy in                  new values are copied into the recorded input, then replayed
    new tensor               a new tensor takes the input's name; the recording knows nothing of it
    keep the output          the output of the first replay is kept over a second one
    clone the output         the same with a clone
    Python between           a Python number changed after recording
    branch on a value        ``if y.sum() > 0`` while recording
    another shape            an input of another length
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Row = dict[str, Any]


class Recorder(TorchDispatchMode):
    """Keeps each operator with the tensors that it read and wrote; ``replay`` runs them again on those tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.film: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and keep it. RuntimeError where Python wants to see a value: that can't be replayed."""
        result = func(*args, **(kwargs or {}))
        if not all(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result)):
            raise RuntimeError(f"recording stopped at {func}: Python asks for a value, and a replay asks nobody")
        self.film.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        """Run the film: the same operators, from the same inputs, into the same outputs."""
        for func, args, kwargs, written in self.film:
            for old, new in zip(tree_leaves(written), tree_leaves(func(*args, **kwargs)), strict=True):
                if old.data_ptr() != new.data_ptr():  # an operator in place, or a view, has written there already
                    old.copy_(new)


def record(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> tuple[Recorder, torch.Tensor]:
    """Return the film of one call, and its output: the tensor that every replay writes."""
    recorder = Recorder()
    with torch.no_grad(), recorder:
        y = function(x)
    return recorder, y


def dish(x: torch.Tensor) -> torch.Tensor:
    """Return relu(2 x + 1)."""
    return torch.relu(2 * x + 1)


def copy_in() -> Row:
    """Copy new values into the recorded input."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(dish, x)
    x.copy_(torch.tensor([10.0, 20.0]))
    film.replay()
    return {"expected": [21.0, 41.0], "got": y, "operators": len(film.film)}


def new_tensor() -> Row:
    """Give the input's name to another tensor: the film still reads the old one."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(dish, x)
    x = torch.tensor([10.0, 20.0])
    film.replay()
    return {"expected": dish(x), "got": y, "operators": len(film.film)}


def keep_the_output() -> Row:
    """Keep the first output over a second replay."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(dish, x)
    first = y
    x.copy_(torch.tensor([10.0, 20.0]))
    film.replay()
    return {"expected": [3.0, 5.0], "got": first, "operators": len(film.film)}


def clone_the_output() -> Row:
    """Clone the first output before the second replay."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(dish, x)
    first = y.clone()
    x.copy_(torch.tensor([10.0, 20.0]))
    film.replay()
    return {"expected": [3.0, 5.0], "got": first, "operators": len(film.film)}


def python_between() -> Row:
    """Change a Python number after recording: Python is not on the film."""
    spice = {"grams": 2}
    x = torch.tensor([1.0, 2.0])
    film, y = record(lambda x: torch.relu(spice["grams"] * x + 1), x)
    spice["grams"] = 100
    film.replay()
    return {"expected": [101.0, 201.0], "got": y, "operators": len(film.film)}


def branch_on_a_value() -> Row:
    """Ask for a value while recording."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(lambda x: x + 1 if x.sum() > 0 else x - 1, x)
    return {"expected": [2.0, 3.0], "got": y, "operators": len(film.film)}


def another_shape() -> Row:
    """Copy an input of another length in."""
    x = torch.tensor([1.0, 2.0])
    film, y = record(dish, x)
    x.copy_(torch.tensor([10.0, 20.0, 30.0]))
    film.replay()
    return {"expected": [21.0, 41.0, 61.0], "got": y, "operators": len(film.film)}


CASES: dict[str, tuple[Callable[[], Row], str]] = {
    "copy in": (copy_in, "x.copy_(new); film.replay(); y"),
    "new tensor": (new_tensor, "x = new; film.replay(); y"),
    "keep the output": (keep_the_output, "first = y; x.copy_(new); film.replay(); first"),
    "clone the output": (clone_the_output, "first = y.clone(); x.copy_(new); film.replay(); first"),
    "Python between": (python_between, 'spice["grams"] = 100; film.replay(); y'),
    "branch on a value": (branch_on_a_value, "record(lambda x: x + 1 if x.sum() > 0 else x - 1, x)"),
    "another shape": (another_shape, "x.copy_(longer); film.replay(); y"),
}


def numbers(values: torch.Tensor | Sequence[float]) -> str:
    """Return values as text: ``3, 5``."""
    return ", ".join(f"{value:g}" for value in (values.tolist() if isinstance(values, torch.Tensor) else values))


def run(*, cases: Sequence[str] = tuple(CASES)) -> list[Row]:
    """Try the cases and return one row each (columns: module docstring); ``cases``: names in CASES."""
    rows: list[Row] = []
    for case in cases:
        attempt, written = CASES[case]
        row: Row = {"case": case, "written": written, "status": "ok", "note": None, "device": "cpu"}
        row |= {"threads": torch.get_num_threads(), "operators": None, "expected": None, "got": None}
        row |= {"right": False, "error": "nothing raised"}
        try:
            found = attempt()
        except RuntimeError as error:
            row["error"] = str(error).splitlines()[0]
        else:
            row |= {"operators": found["operators"]}
            row |= {"expected": numbers(found["expected"]), "got": numbers(found["got"])}
            row["right"] = row["expected"] == row["got"]
        rows.append(row)
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """Try the cases and print what came of them."""
    for row in run():
        print(f"{row['case']:18} {row['written']}")
        found = f"expected {row['expected']}, got {row['got']}" if row["expected"] else row["error"]
        print(f"{'':18} {found}")


if __name__ == "__main__":
    main()
