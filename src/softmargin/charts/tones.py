"""Colours, shapes and dashes of charts: what each series looks like, on light and dark paper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from softmargin.charts import Chart, Series


@dataclass(frozen=True)
class Tone:
    """One colour: as it is on light paper and on dark paper, both as ``#rrggbb``."""

    light: str
    dark: str

    @property
    def variable(self) -> str:
        """Return the name of the CSS variable that stands for this tone."""
        return f"--tone-{self.light[1:]}"


INK = Tone("#1f2328", "#e9e7e3")
MUTED = Tone("#5b636c", "#a3a9b1")
GRID = Tone("#dfe3e8", "#373c43")
GREEN = Tone("#128a68", "#45c9a0")
# blue and orange stay apart for every kind of colour vision; each goes from near β = 1 to far
BLUES = Tone("#58a8e6", "#4b9be0"), Tone("#0a3d78", "#b4dbfb")
ORANGES = Tone("#e08a2c", "#e08a2c"), Tone("#8a2b06", "#ffd0a1")
FARTHEST_ABOVE, FARTHEST_BELOW = 50.0, 0.001
# what has no β: never blue, orange, black or grey
OTHERS = (
    GREEN,
    Tone("#b5369a", "#e68ad2"),
    Tone("#8a7400", "#d6b83e"),
    Tone("#6f4fc4", "#ae9af0"),
    Tone("#8f3f3a", "#dd908a"),
    Tone("#17a2ad", "#52d0d9"),
    Tone("#6b9a10", "#a6d64b"),
    Tone("#d8517e", "#ff9dbb"),
    Tone("#3f2378", "#d6c8ff"),
    Tone("#0b4a3d", "#b2ecd9"),
)
STAR = "M0,-1L.24,-.32L.95,-.31L.38,.12L.59,.81L0,.4L-.59,.81L-.38,.12L-.95,-.31L-.24,-.32Z"
SHAPES = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "triangle-down",
    STAR,
    "triangle-right",
    "triangle-left",
)
SOLID = ((1, 0), (9, 2), (6, 2, 1.5, 2), (2, 2))
DASHED = ((5, 4), (3, 3), (9, 4, 3, 4))

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Look:
    """How one series is drawn: its colour, the shape of its points, the dashes of its line."""

    tone: Tone
    shape: str
    dashes: tuple[float, ...]


def beta_tone(beta: float) -> Tone:
    """Return the colour of a β, the same in every chart: blues above 1, ink at 1, oranges below.

    Example:
        >>> beta_tone(1.0) == INK, beta_tone(50.0) == BLUES[1]
        (True, True)
    """
    if beta == 1:
        return INK
    (near, far), end = (BLUES, FARTHEST_ABOVE) if beta > 1 else (ORANGES, FARTHEST_BELOW)
    share = min(math.log(beta) / math.log(end), 1.0) if beta > 0 else 1.0
    return Tone(_mix(near.light, far.light, share), _mix(near.dark, far.dark, share))


def looks_of(charts: Iterable[Chart]) -> list[list[Look]]:
    """Return the looks of the series of all charts of a page, chart by chart.

    What has the same name (and β) looks the same in all of them. Series of one chart differ in
    colour or, where they share a β, in shape and dashes. A dashed series without β is grey.

    Example:
        >>> plain, other = Series("β = 1", [0], [0], beta=1.0), Series("centre", [0], [0])
        >>> (looks,) = looks_of([Chart("a", "A", "line", "x", "y", [plain, other])])
        >>> [look.tone == tone for look, tone in zip(looks, (INK, GREEN))]
        [True, True]
    """
    charts = list(charts)
    together: dict[_Key, dict[_Key, None]] = {}
    for chart in charts:
        keys = [_key(each) for each in chart.series]
        for key in keys:
            together.setdefault(key, {}).update(dict.fromkeys(keys))
    free = [key for key in together if key[1] is None and not key[2]]
    tones = _spread(OTHERS, {key: [k for k in together[key] if k in free] for key in free})
    shapes = _spread(SHAPES, {key: list(others) for key, others in together.items()})
    looks = {}
    for dashed, patterns in ((False, SOLID), (True, DASHED)):
        # lines that share a colour, or have none that is known from elsewhere, differ in dashes
        alike = {
            key: [k for k in others if k[1:] == key[1:]]
            for key, others in together.items()
            if key[2] == dashed
        }
        for key, dashes in _spread(patterns, alike, first=True).items():
            tone = beta_tone(key[1]) if key[1] is not None else tones.get(key, MUTED)
            looks[key] = Look(tone, shapes[key], dashes)
    return [[looks[_key(each)] for each in chart.series] for chart in charts]


_Key = tuple[str, float | None, bool]


def _key(series: Series) -> _Key:
    return series.name, series.beta, series.dashed


def _spread(
    choices: Sequence[Choice], neighbours: Mapping[_Key, Sequence[_Key]], first: bool = False
) -> dict[_Key, Choice]:
    """Give each key a choice that its neighbours do not have, and then one that few others have.

    Args:
        choices: to be given.
        neighbours: keys that should differ from each key.
        first: whether to ignore all others and take the first choice that neighbours leave.
    """
    chosen: dict[_Key, int] = {}
    places = range(len(choices))
    for key, others in neighbours.items():
        near = Counter(chosen[other] for other in others if other in chosen)
        everywhere = Counter() if first else Counter(chosen.values())
        chosen[key] = min(places, key=lambda i: (near[i], everywhere[i]))
    return {key: choices[place] for key, place in chosen.items()}


def _mix(first: str, second: str, share: float) -> str:
    pairs = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
