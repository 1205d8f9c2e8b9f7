"""Judges that set records of several versions of torch side by side: their rows carry ``torch``."""

from __future__ import annotations

from kitchen.data import Row, row_ok
from kitchen.judges import Case, judge
from kitchen.results import version_key

#: The pick of the comparison tool that counts: with the compile time of a cold start.
PICK = "pick_cold"


@judge
def choice_changes(rows: list[Row]) -> list[Case]:
    """Whether the variant to take is another one on another version, for each model and workload that has several."""
    picks: dict[tuple[str, str], dict[str, str]] = {}
    steps: dict[tuple[str, str], int] = {}
    for row in rows:
        if row_ok(row) and row.get(PICK) is True:
            key = (str(row.get("model")), str(row.get("workload")))
            picks.setdefault(key, {})[str(row["torch"])] = str(row["variant"])
            steps[key] = int(row.get("steps") or 0)
    cases = []
    for (model, workload), by_torch in picks.items():
        if len(by_torch) < 2:
            continue
        versions = sorted(by_torch, key=version_key)
        seen = ", ".join(f"{torch}: {by_torch[torch]}" for torch in versions)
        tried = f"{model.partition(':')[0]}, {workload}, {steps[model, workload]} steps"
        cases.append(Case(tried, "another pick", seen, len(set(by_torch.values())) > 1))
    return cases
