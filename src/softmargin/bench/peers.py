"""A comparison, and the packages that a user might take and that may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

skipped: list[str] = []
"""What could not be compared with, one reason each."""


@dataclass(frozen=True)
class Case:
    """Some work, done by several contenders.

    Attributes:
        group: what is compared: losses, heads, ...
        work: the size of it.
        contenders: by name, one turn of each; the first is what the others are compared with.
        bounds: by name, the ratio that the project holds itself to, beside the fastest peer.
        shares: by name, how much of the work a turn does, where it is not all of it.
        long: whether one turn takes seconds: a few of them must do.
        peers: names of the peers, where the first is not always the fastest.
    """

    group: str
    work: str
    contenders: Mapping[str, Callable[[], object]]
    bounds: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    long: bool = False
    peers: Sequence[str] = ()


def missing(reason: str) -> None:
    """Note, once, what is not compared with, and why."""
    if reason not in skipped:
        skipped.append(reason)


def found(package: str) -> bool:
    """Whether a package is installed; it is noted if not."""
    if find_spec(package) is not None:
        return True
    missing(f"{package.replace('_', '-')}: not installed")
    return False
