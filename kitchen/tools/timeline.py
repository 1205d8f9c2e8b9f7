"""The data of the kitchen timeline: presets from measured rows, model against clock, and a profiled step.

A preset is a set of values for the model's terms, in microseconds. Each value says where it comes from: the record and
how it was taken from its rows. Presets carry three digits, as the page shows them, so that what stands there adds up.
The example presets at the end are no measurements, and are marked so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kitchen import data, labels, results
from kitchen.context import Language
from kitchen.data import Row, View
from kitchen.tools import Payload

LAUNCHES = "eager/launch_and_compute"
SETUP = "aot_eager/setup_cost"
FUSION = "inductor/fusion"
GRAPH = "cudagraphs/parts"
PROFILE = "eager/profiler_timeline"
SOURCES = (LAUNCHES, SETUP, FUSION, GRAPH, PROFILE)

#: The drawing shows so many operators at most.
MOST_OPERATORS = 64
#: How many operators a preset has whose record does not say.
USUAL = 16
#: Where launching rules, and where computing does: the share of the launch in one call.
MOSTLY_LAUNCH, MOSTLY_COMPUTE = 0.85, 0.05

#: No measurements: round numbers that show what a GPU changes. Microseconds, and operators for m and group.
EXAMPLES: dict[str, dict[str, float]] = {
    "example_launch": {
        "m": 32, "launch": 6, "compute": 2, "aotsetup": 40, "aotlaunch": 9, "call": 40, "group": 4, "fused": 2.5,
        "graphcall": 40, "replay": 10, "capture": 500,
    },
    "example_compute": {
        "m": 32, "launch": 6, "compute": 40, "aotsetup": 40, "aotlaunch": 9, "call": 40, "group": 4, "fused": 50,
        "graphcall": 40, "replay": 10, "capture": 500,
    },
}  # fmt: skip


@dataclass
class Preset:
    """Values by term, the source of each ([record, how]), and by chef what was measured ([record, microseconds])."""

    id: str
    kind: str
    device: str
    machine: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    sources: dict[str, tuple[int | None, str]] = field(default_factory=dict)
    measured: dict[str, tuple[int, float]] = field(default_factory=dict)

    def take(self, term: str, value: float | None, record: int | None, how: str) -> None:
        """Set a term, rounded as it is shown; None leaves it out. Noise can make a difference negative: that is 0."""
        if value is not None:
            self.values[term] = float(f"{max(value, 0.0):.3g}")
            self.sources[term] = (record, how)

    def public(self) -> dict[str, Any]:
        """As the page's script gets it."""
        return {**vars(self), "machine": self.machine}


class Room:
    """The records of one machine that the timeline uses, and their places in the list of all records used."""

    def __init__(self, name: str, views: dict[str, View], order: list[View]) -> None:
        self.name = name
        self._views = views
        self._order = order

    def record(self, snippet: str) -> int:
        """The place of a snippet's record."""
        return self._order.index(self._views[snippet])

    def rows(self, snippet: str, **where: Any) -> list[Row]:
        """The rows of a snippet's record that have their numbers; none without a record."""
        view = self._views.get(snippet)
        rows = view.record.rows if view and view.ok else []
        return [row for row in data.select(rows, where) if data.row_ok(row)]

    def value(self, snippet: str, column: str, **where: Any) -> float | None:
        """The number of a column in the first such row that has one."""
        return next(_numbers(self.rows(snippet, **where), column), None)


def _numbers(rows: list[Row], column: str) -> Iterator[float]:
    return (value for row in rows if (value := data.numeric(row.get(column))) is not None)


def payload(language: Language) -> Payload:
    """Everything that the page draws."""
    shown = {snippet: {view.machine.name: view for view in data.views(snippet)} for snippet in SOURCES}
    order = [view for views in shown.values() for view in views.values()]
    rooms = [
        Room(machine, {snippet: views[machine] for snippet, views in shown.items() if machine in views}, order)
        for machine in data.machines()
    ]
    presets = [preset for room in rooms for preset in _presets(room)]
    presets += [Preset(kind, kind, "gpu", values=dict(values)) for kind, values in EXAMPLES.items()]
    comparisons = [entry for room in rooms for entry in _comparisons(room)]
    for facts in [*(preset.facts for preset in presets), *(entry["facts"] for entry in comparisons)]:
        if "place" in facts:
            facts["place"] = labels.text_value("place", facts["place"], language)
    return Payload(
        {
            "machines": {room.name: data.machines()[room.name].title for room in rooms},
            "records": [_about(view) for view in order],
            "presets": [preset.public() for preset in presets],
            "comparisons": comparisons,
            "profiles": [entry for room in rooms for entry in _profiles(room)],
            "names": {
                "chef": {
                    name: labels.text_value("backend", name, language)
                    for name in ("none", "aot_eager", "inductor", "cudagraphs")
                },
                "phase": {
                    name: labels.text_value("step_phase", name, language)
                    for name in ("zero_grad", "forward", "loss", "backward", "optimizer")
                },
                "lane": {name: labels.text_value("lane", name, language) for name in ("host", "device")},
            },
            "columns": {
                name: labels.column(name, language, PROFILE).label
                for name in ("name", "lane", "step_phase", "depth", "start_us", "duration_us", "self_us")
            },
        }
    )


def _about(view: View) -> dict[str, Any]:
    return {
        "snippet": view.snippet.name,
        "machine": view.machine.title,
        "torch": str(view.record.run.environment.get("torch") or ""),
        "date": view.record.started[:10],
        "url": f"results/{view.record.path.relative_to(results.RESULTS).as_posix()}",
        "stale": view.stale,
    }


# ---------------------------------------------------------------- presets


def _presets(room: Room) -> list[Preset]:
    found = [*_relu(room), *_chains(room), *_mlp(room), *_graphs(room)]
    found = [preset for preset in found if {"m", "launch", "compute"} <= set(preset.values)]
    for preset in found:
        if preset.device == "cpu":
            # A CPU records no CUDA graph. Whoever asks "and with a device of its own?" starts from round numbers.
            preset.take("graphcall", preset.values.get("aotsetup"), None, "like_aot")
            preset.take("replay", EXAMPLES["example_launch"]["replay"], None, "example")
            preset.take("capture", EXAMPLES["example_launch"]["capture"], None, "example")
    return found


def _compiled(room: Room, preset: Preset) -> None:
    """The terms of the compiled chefs that do not depend on the tensors: set-up, and launches of their own."""
    launch = preset.values.get("launch")
    aot = {"backend": "aot_eager", "case": "inference", "kind": "fit"}
    ratio = room.value(SETUP, "slope_ratio", **aot)
    if launch is not None and ratio is not None:
        preset.take("aotsetup", room.value(SETUP, "setup_us", **aot), room.record(SETUP), "setup")
        preset.take("aotlaunch", launch * ratio, room.record(SETUP), "launch_ratio")
    whole = list(_numbers(room.rows(FUSION, kind="chain"), "launch_us"))
    if launch is not None and whole:
        preset.take("call", whole[-1] - launch, room.record(FUSION), "call")


def _relu(room: Room) -> list[Preset]:
    """The largest relu that is mostly launch, and the smallest that is mostly compute."""
    points = room.rows(LAUNCHES, kind="point", op="relu")
    points = [row for row in points if data.numeric(row.get("compute_us")) is not None]
    small = [row for row in points if row["launch_share_ratio"] >= MOSTLY_LAUNCH]
    large = [row for row in points if row["launch_share_ratio"] <= MOSTLY_COMPUTE]
    found = []
    for kind, row in (("relu_small", small[-1:]), ("relu_large", large[:1])):
        for point in row:
            preset = Preset(f"{room.name}.{kind}", kind, _device(point), room.name, {"elements": point["elements"]})
            record = room.record(LAUNCHES)
            preset.take("m", USUAL, None, "chosen")
            preset.take("launch", point["launch_us"], record, "launch_point")
            preset.take("compute", point["compute_us"], record, "compute_point")
            _compiled(room, preset)
            preset.take("group", USUAL, None, "chosen")
            preset.take("fused", point["compute_us"], record, "fused_assumed")
            found.append(preset)
    return found


def _chains(room: Room) -> list[Preset]:
    """The longest chain of the fusion snippet, for each place of its tensors."""
    launch = room.value(LAUNCHES, "launch_us", kind="point", op="relu")
    longest: dict[str, Row] = {}
    for row in room.rows(FUSION, kind="chain"):
        longest[row["place"]] = row  # ascending in n
    found = []
    for place, row in longest.items():
        if launch is None or row["n"] > MOST_OPERATORS or data.numeric(row.get("fused_kernel_us")) is None:
            continue
        preset = Preset(f"{room.name}.chain_{place.lower()}", "chain", _device(row), room.name, {"place": place})
        record = room.record(FUSION)
        preset.take("m", row["n"], record, "row")
        preset.take("launch", launch, room.record(LAUNCHES), "launch_point")
        preset.take("compute", row["sum_apart_us"] / row["n"] - launch, record, "compute_apart")
        _compiled(room, preset)
        preset.take("call", row["launch_us"] - launch, record, "call")
        preset.take("group", row["n"], record, "row")
        preset.take("fused", row["fused_kernel_us"], record, "row")
        preset.measured["none"] = (record, row["eager_chain_us"])
        preset.measured["inductor"] = (record, row["compiled_call_us"])
        found.append(preset)
    return found


def _mlp(room: Room) -> list[Preset]:
    """The step of the small MLP, its operators taken as equal."""
    found = []
    for row in room.rows(LAUNCHES, kind="whole", form="functions"):
        m, record = row["m"], room.record(LAUNCHES)
        preset = Preset(f"{room.name}.mlp", "mlp", _device(row), room.name, {"m": m})
        preset.take("m", m, record, "row")
        preset.take("launch", row["launch_sum_us"] / m, record, "mean")
        preset.take("compute", row["compute_sum_us"] / m, record, "mean")
        aot = {"backend": "aot_eager", "case": "inference", "kind": "fit"}
        if room.rows(SETUP, **aot):
            _compiled(room, preset)
        # A matrix product is a call of a library, fused with nothing: one operator, one kernel.
        preset.take("group", 1, None, "not_fused")
        preset.take("fused", row["compute_sum_us"] / m, record, "mean")
        preset.measured["none"] = (record, row["step_us"])
        found.append(preset)
    return found


def _graphs(room: Room) -> list[Preset]:
    """A chain recorded as a CUDA graph by hand: the longest that fits the drawing, for each kind of work."""
    found = []
    for work in ("tiny", "large"):
        rows = [row for row in room.rows(GRAPH, kind="parts", work=work) if row["m"] <= MOST_OPERATORS]
        fit = {"kind": "fit", "work": work, "way": "one by one", "clock": "enqueue"}
        for row in rows[-1:]:
            m, record = row["m"], room.record(GRAPH)
            preset = Preset(f"{room.name}.graph_{work}", f"graph_{work}", "gpu", room.name, {"m": m})
            preset.take("m", m, record, "row")
            preset.take("launch", room.value(GRAPH, "slope_us", **fit), record, "slope_enqueue")
            preset.take("compute", row["compute_us"] / m, record, "mean")
            _compiled(room, preset)
            preset.take("group", m, None, "chosen")
            preset.take("fused", row["compute_us"] / m, record, "fused_assumed")
            preset.take("graphcall", 0, None, "by_hand")
            preset.take("replay", row["launch_us"], record, "row")
            preset.take("capture", row["capture_us"], record, "row")
            found.append(preset)
    return found


def _device(row: Row) -> str:
    return "cpu" if row.get("device") == "cpu" else "gpu"


# ---------------------------------------------------------------- model against clock


def _comparisons(room: Room) -> list[dict[str, Any]]:
    """Rows in which terms and whole were measured apart, on one thread: on a GPU the sum is no step."""
    found: list[dict[str, Any]] = []

    def add(snippet: str, row: Row, what: str, chef: str, measured: str, values: dict[str, Any], **facts: Any) -> None:
        if _device(row) == "cpu" and None not in values.values() and data.numeric(row.get(measured)) is not None:
            about = {"machine": room.name, "record": room.record(snippet), "what": what, "facts": facts}
            found.append({**about, "chef": chef, "values": values, "measured": row[measured]})

    for row in room.rows(LAUNCHES, kind="whole"):
        m = row["m"]
        values = {"m": m, "launch": row["launch_sum_us"] / m, "compute": row["compute_sum_us"] / m}
        add(LAUNCHES, row, f"mlp_{row['form']}", "none", "step_us", values)
    for row in room.rows(SETUP, kind="point", m=USUAL, backend=["none", "aot_eager"], case=["inference", "large"]):
        chef, m = row["backend"], row["m"]
        fit = {"kind": "fit", "backend": chef}
        slope = room.value(SETUP, "slope_us", case="inference", **fit)
        compute = room.value(SETUP, "compute_us", case="large", **fit) if row["case"] == "large" else 0
        values = {"m": m, "compute": compute}
        if chef == "none":
            values["launch"] = slope
        else:
            values |= {"aotlaunch": slope, "aotsetup": room.value(SETUP, "setup_us", case="inference", **fit)}
        add(SETUP, row, f"cos_{row['case']}", chef, "chain_us", values, m=m)
    longest = {row["place"]: row for row in room.rows(FUSION, kind="chain")}
    for place, row in longest.items():
        values = {"m": row["n"], "launch": 0, "compute": row["sum_apart_us"] / row["n"]}
        add(FUSION, row, "chain", "none", "eager_chain_us", values, m=row["n"], place=place)
    return found


# ---------------------------------------------------------------- the profiled step


def _profiles(room: Room) -> list[dict[str, Any]]:
    rows = room.rows(PROFILE, kind="profile_event")
    if not rows:
        return []
    columns = ("name", "lane", "step_phase", "depth", "start_us", "duration_us", "self_us")
    # The profiler counts in nanoseconds.
    events = [[round(row[column], 3) if isinstance(row[column], float) else row[column] for column in columns]
              for row in rows]  # fmt: skip
    return [{"machine": room.name, "record": room.record(PROFILE), "columns": columns, "events": events}]
