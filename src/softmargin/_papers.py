"""The papers, as plain facts: what everything that names or orders them reads."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, or this library's own experiments.

    Attributes:
        subject: a few words, as in "the paper on gradient decay".
        citation: its authors where they are part of its usual name, and its title.
        authors: all of them.
        title: in full.
        published: where and when.
        link: its address, where it has a lasting one.
        is_ours: whether it stands for this library.
    """

    subject: str
    citation: str = ""
    authors: str = ""
    title: str = ""
    published: str = ""
    link: str = ""
    is_ours: bool = False

    @property
    def reference(self) -> str:
        """Authors, title, place and year."""
        return f"{self.authors}: {self.title}, {self.published}"


PAPERS = {
    "GD": Paper(
        "gradient decay",
        "gradient decay, Probability-Dependent Gradient Decay in Large Margin Softmax",
        "Siyuan Zhang, Linbo Xie, Ying Chen",
        "Probability-Dependent Gradient Decay in Large Margin Softmax",
        "2022, second version 2023",
        "https://arxiv.org/abs/2210.17145",
    ),
    "LM": Paper(
        "large margin in softmax cross-entropy",
        "Kobayashi 2019, Large Margin In Softmax Cross-Entropy Loss",
        "Takumi Kobayashi",
        "Large Margin In Softmax Cross-Entropy Loss",
        "British Machine Vision Conference (BMVC), 2019",
    ),
    "AG": Paper(
        "ArcGrad",
        "ArcGrad: Angular Gradient Margin Loss for Classification",
        "Jiantao Wu, Lin Wang",
        "ArcGrad: Angular Gradient Margin Loss for Classification",
        "International Joint Conference on Neural Networks (IJCNN), 2020",
    ),
    "SM": Paper("beyond the papers", is_ours=True),
}


def in_order(paper: str, name: str) -> tuple[int, list[str | int]]:
    """Return what to sort experiments by: their paper, then gd-fig10 after gd-fig9.

    Example:
        >>> sorted(["fig10", "fig9", "tab1"], key=lambda name: in_order("GD", name))
        ['fig9', 'fig10', 'tab1']
    """
    parts = re.split(r"(\d+)", name)
    return list(PAPERS).index(paper), [int(part) if part.isdigit() else part for part in parts]
