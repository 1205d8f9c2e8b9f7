"""Where the labels of marked points go in a drawing: beside their mark, off the lines, apart from each other.

All in pixels of the plot, y downwards. Each label tries the places around its mark, near ones first, and takes the
cheapest; that is repeated until none of them moves, so that an early label gives way to a late one too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

Point = tuple[float, float]

#: Half the width of a mark with the gap to its label, and by how much a label moves away at a time.
REACH, STEP, STEPS = 11.0, 15.0, 5
#: What a fault costs, in pixels of distance from the mark that would be gone to avoid it.
ON_LABEL, OUTSIDE, ON_MARK, ON_LINE = 4000.0, 1500.0, 800.0, 250.0


@dataclass(frozen=True)
class Box:
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """True where the two overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def crossed(self, start: Point, end: Point) -> bool:
        """True where a straight line runs through the rectangle (Liang and Barsky's way to clip a line)."""
        (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
        enters, leaves = 0.0, 1.0
        for run, room in (
            (-dx, x - self.left),
            (dx, self.right - x),
            (-dy, y - self.top),
            (dy, self.bottom - y),
        ):
            if run == 0:
                if room < 0:
                    return False
            elif run < 0:
                enters = max(enters, room / run)
            else:
                leaves = min(leaves, room / run)
        return enters <= leaves


@dataclass(frozen=True)
class Place:
    """Where a label begins (its left end, on its base line), from its mark, and whether a thin line must lead there."""

    dx: float
    dy: float
    leader: bool

    def box(self, mark: Point, width: float, font: float) -> Box:
        """The room that the label takes, with a little air."""
        left, base = mark[0] + self.dx, mark[1] + self.dy
        return Box(left - 3, base - font * 0.85 - 1, left + width + 3, base + font * 0.3 + 1)


def _around(width: float, font: float) -> list[Place]:
    """The places around a mark, the usual ones first."""
    found = []
    for step in range(STEPS):
        away = step * STEP
        below, above = REACH + font * 0.75 + away, -REACH + 1 - away
        far = step > 0
        found += [
            Place(6, below, far),
            Place(-6 - width, above, far),
            Place(6, above, far),
            Place(-6 - width, below, far),
            Place(REACH + 2 + away, font * 0.36, far),
            Place(-REACH - 2 - away - width, font * 0.36, far),
            Place(-width / 2, below, far),
            Place(-width / 2, above, far),
        ]
    return found


def place(
    marks: list[Point], widths: list[float], lines: list[list[Point]], size: tuple[float, float], font: float
) -> list[Place]:
    """A place for the label of each mark, in their order; ``widths`` are those of the labels, ``size`` the plot's."""
    diamonds = [Box(x - REACH + 3, y - REACH + 3, x + REACH - 3, y + REACH - 3) for x, y in marks]
    segments = [pair for line in lines for pair in itertools.pairwise(line)]
    choices = [_around(width, font) for width in widths]
    boxes = [[p.box(mark, width, font) for p in c] for mark, width, c in zip(marks, widths, choices, strict=True)]
    # What does not depend on the other labels is counted once.
    fixed = [
        [
            order * 0.1
            + (abs(one.dx) + abs(one.dy)) * 0.02
            + STEP * (order // 8)
            + OUTSIDE * (box.left < 0 or box.right > size[0] or box.top < 0 or box.bottom > size[1])
            + ON_MARK * sum(box.meets(diamond) for diamond in diamonds)
            + ON_LINE * sum(box.crossed(*segment) for segment in segments)
            for order, (one, box) in enumerate(zip(places, rooms, strict=True))
        ]
        for places, rooms in zip(choices, boxes, strict=True)
    ]
    chosen = [min(range(len(costs)), key=costs.__getitem__) for costs in fixed]
    for _ in range(8):
        before = list(chosen)
        for index, costs in enumerate(fixed):
            others = [boxes[other][at] for other, at in enumerate(chosen) if other != index]
            totals = [
                cost + ON_LABEL * sum(box.meets(other) for other in others)
                for cost, box in zip(costs, boxes[index], strict=True)
            ]
            chosen[index] = min(range(len(totals)), key=totals.__getitem__)
        if chosen == before:
            break
    return [places[at] for places, at in zip(choices, chosen, strict=True)]
