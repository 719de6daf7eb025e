"""The ids of all experiments, which ``ids.toml`` lists by the module that declares them.

Completion and a mistyped id are answered from that list, without importing what experiments
compute with, and one experiment imports one module. A test holds it against the modules.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

from softmargin._papers import in_order
from softmargin._text import nearest

ALL = "all"
MODULES: dict[str, list[str]] = tomllib.loads((files(__package__) / "ids.toml").read_text("utf-8"))


def ids() -> list[str]:
    """Return all ids in the order of the papers, whose letters they begin with."""
    found = [name for own in MODULES.values() for name in own]
    return sorted(found, key=lambda name: in_order(name.partition("-")[0].upper(), name))


def check_id(name: str) -> None:
    """Raise with the nearest ids where a name is none, nor ``"all"``."""
    known = ids()
    if name != ALL and name not in known:
        close = nearest(name, known, cutoff=0.4) or known[:3]
        raise ValueError(
            "argument ID: must be one that softmargin reproduce list shows, such as "
            f"{', '.join(close)}, but got {name!r}."
        )
