"""Judges that set records of several versions of torch side by side: their rows carry ``torch``."""

from __future__ import annotations

from kitchen.data import Row, row_ok
from kitchen.judges import Case, judge
from kitchen.results import version_key

#: The pick of the comparison tool that counts: with the compile time of a cold start.
PICK = "pick_cold"


@judge
def choice_changes(rows: list[Row]) -> list[Case]:
    """Whether another version changes the choice, for each model and workload that was measured on several.

    Twice: the variant to take for the steps of the record, compiling included; and whether a step of Inductor is faster
    than one of eager mode at all, which decides where steps are many.
    """
    picks: dict[str, dict[str, str]] = {}
    verdicts: dict[str, dict[str, str]] = {}
    for row in rows:
        if not row_ok(row):
            continue
        case = f"{str(row.get('model')).removesuffix(':build')}, {row.get('workload')}"
        torch = str(row["torch"])
        if row.get(PICK) is True:
            picks.setdefault(f"pick({case}, {row.get('steps')} steps)", {})[torch] = str(row["variant"])
        if row.get("variant") == "inductor" and row.get("verdict"):
            verdicts.setdefault(f"inductor({case})", {})[torch] = str(row["verdict"])
    cases = []
    for tried, by_torch in (*picks.items(), *verdicts.items()):
        if len(by_torch) < 2:
            continue
        seen = ", ".join(f"{torch}: {by_torch[torch]}" for torch in sorted(by_torch, key=version_key))
        cases.append(Case(tried, "another choice", seen, len(set(by_torch.values())) > 1))
    return cases
