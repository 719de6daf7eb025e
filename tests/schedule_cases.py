"""What the tests of schedules move."""

from __future__ import annotations

from softmargin import GradientDecayLoss
from softmargin._settings import ModuleWithSettings, Setting


class Head(ModuleWithSettings):
    """A stand-in for a head whose margin is annealed, and may not exceed 1."""

    anneal = Setting(inclusive=True)
    margin = Setting(inclusive=True)

    def __init__(self):
        super().__init__()
        self.anneal = self.margin = 0.0

    def __setattr__(self, name, value):
        if name == "margin" and value > 1:
            raise ValueError(f"margin must be at most 1, but got {value}.")
        super().__setattr__(name, value)


def in_loss(kind, *arguments, **options):
    return kind(GradientDecayLoss(), "beta", *arguments, **options)
