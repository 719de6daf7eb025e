"""Every loss and head in one list: formula, paper, arguments, and the β it equals.

``softmargin losses`` prints it and the documentation shows it, both from here. Finding an entry
does not import PyTorch; its class and arguments do.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmargin._lazy import load_object
from softmargin._papers import PAPERS
from softmargin._table import markdown_table
from softmargin._text import nearest, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

SHARED = ("weight", "ignore_index", "reduction", "label_smoothing", "device", "dtype")
SIZES = ("in_features", "num_classes")
CITATIONS = {name: paper.citation for name, paper in PAPERS.items() if paper.citation}


@dataclass(frozen=True)
class Entry:
    """What the catalogue says about one loss or head; ``path`` is its class below softmargin."""

    path: str
    formula: str
    paper: str
    beta: str = ""

    @property
    def name(self) -> str:
        """The class's name."""
        return self.path.rpartition(".")[2]

    @property
    def module(self) -> type[nn.Module]:
        """The class itself."""
        found: type[nn.Module] = load_object(f"softmargin.{self.path.replace('.', ':')}")
        return found

    @property
    def arguments(self) -> str:
        """The class's own arguments with their defaults."""
        parameters = inspect.signature(self.module).parameters.values()
        own = [p for p in parameters if p.name not in (*SHARED, *SIZES)]
        return ", ".join(_shown(p) for p in own)


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"


LOSSES = [
    Entry(
        "losses.GradientDecayLoss", "log(β + e^ξ)", "GD eq. 5, 7", "its own; the margin is −log β"
    ),
    Entry(
        "losses.SoftMarginSoftmaxLoss",
        "softplus(ξ + m)",
        "Liang et al. 2017; AG's M-Soft",
        "e^(−m), floored",
    ),
    Entry("losses.ModifiedSoftmaxLoss", "softplus(ξ + ρ)", "LM eq. 15", "e^(−ρ), floored"),
    Entry(
        "losses.RegularizedSoftmaxLoss",
        "log(β + e^ξ) + λ·D(q, u)",
        "LM eq. 11",
        "its own where λ = 0",
    ),
    Entry(
        "losses.FocalLoss",
        "sigmoid(ξ)^γ · softplus(ξ)",
        "Lin et al. 2017",
        "1 where γ = 0",
    ),
    Entry(
        "losses.AdaFocalLoss",
        "sigmoid(ξ)^γ · softplus(ξ), or (1 + p_c)^|γ| · softplus(ξ); γ by range of p_c",
        "Ghosh et al. 2022, AdaFocal",
    ),
    Entry("losses.MeanHingeLoss", "1/(C−1) Σ_{i≠c} max(0, z_i − z_c + m)", "LM eq. 14"),
    Entry("losses.MaxHingeLoss", "max(0, max_{i≠c} z_i − z_c + m)", "Crammer and Singer 2001"),
    Entry("losses.HardBiasSoftmaxLoss", "softplus(max_{i≠c} z_i − z_c + ρ)", "LM section 3"),
]
HEADS = [
    Entry("heads.LinearHead", "w_j·x + b_j", "nn.Linear"),
    Entry("heads.CosineHead", "s cos θ_j", "Wang et al. 2017, NormFace"),
    Entry(
        "heads.CosFaceHead",
        "s cos θ_j; target s(cos θ_c − m)",
        "Wang et al. 2018, CosFace; AM-Softmax",
        "e^(−s·m) on s cos θ, floored",
    ),
    Entry(
        "heads.ArcFaceHead",
        "s cos θ_j; target s cos(θ_c + m)",
        "Deng et al. 2019, ArcFace; AG eq. 8",
    ),
    Entry(
        "heads.AdaCosHead",
        "s cos θ_j; s = log B / cos(min(π/4, θ_med))",
        "Zhang et al. 2019, AdaCos; AG eq. 9-10",
    ),
    Entry(
        "heads.LSoftmaxHead",
        "‖w_j‖‖x‖cos θ_j; target ‖w_c‖‖x‖(λ cos θ_c + ψ(θ_c))/(1 + λ)",
        "Liu et al. 2016, L-Softmax; GD-v1 eq. 6",
    ),
    Entry(
        "heads.ASoftmaxHead",
        "‖x‖cos θ_j; target ‖x‖(λ cos θ_c + ψ(θ_c))/(1 + λ)",
        "Liu et al. 2017, SphereFace",
    ),
    Entry("heads.ArcGradHead", "−s θ_j", "AG eq. 11"),
    Entry(
        "heads.GaussianHead",
        "−d_j − ½ log det Λ_j; target −(1 + α) d_c − ½ log det Λ_c",
        "Wan et al. 2018, LGM",
    ),
    Entry(
        "heads.SimplexHead",
        "w_j·x with w_j·w_j = s², w_j·w_k = −s²/(C−1)",
        "LM section 3, super-symmetric",
    ),
]
TERMS = [
    Entry("center.CenterLoss", "λ/2 · mean ‖x − centre_c‖²", "Wen et al. 2016; AG eq. 5-6"),
]
SECTIONS = {
    "Losses on logits": LOSSES,
    "Heads, from features to logits": HEADS,
    "To be added to a loss": TERMS,
}
NOTATION = """\
z logits, c the target, C classes, x features, w_j class weights, θ_j the angle between them;
ξ = log Σ_{i≠c} e^(z_i/τ) − z_c/τ, the log-odds against the target; q the softmax over the
non-target logits, u uniform; ψ(θ) = (−1)^j cos(kθ) − 2j with j = floor(kθ/π).
Every loss also takes weight, ignore_index, reduction and label_smoothing, as nn.CrossEntropyLoss
does; every head takes in_features and num_classes first, and device and dtype."""


def find(name: str) -> Entry:
    """Return the entry of a class, whatever the case of its name."""
    known = {entry.name: entry for entries in SECTIONS.values() for entry in entries}
    for candidate, entry in known.items():
        if name.lower() == candidate.lower():
            return entry
    close = nearest(name, known, cutoff=0.4) or list(known)
    raise ValueError(
        f"NAME must be a loss or head such as {', '.join(close)}, but got '{printable(name)}'."
    )


def find_loss(name: str) -> Entry:
    """Return the entry of a loss, whatever its spelling, with or without "Loss" at its end.

    Example:
        >>> find_loss("gradient-decay").name, find_loss("cross_entropy").name
        ('GradientDecayLoss', 'GradientDecayLoss')
    """
    return _find_part("loss", name, LOSSES, "Loss", {"crossentropy": "gradientdecay"})


def find_head(name: str) -> Entry:
    """Return the entry of a head, whatever its spelling, with or without "Head" at its end."""
    return _find_part("head", name, HEADS, "Head", {})


def _find_part(
    what: str, name: str, entries: Sequence[Entry], suffix: str, aliases: dict[str, str]
) -> Entry:
    known = {_letters(entry.name.removesuffix(suffix)): entry for entry in entries}
    known |= {alias: known[meant] for alias, meant in aliases.items()}
    wanted = _letters(name).removesuffix(suffix.lower())
    if wanted in known:
        return known[wanted]
    close = nearest(wanted, known) or list(known)
    raise ValueError(f"{what} must be a name such as {', '.join(close)}, but got {name!r}.")


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def as_text(name: str | None = None) -> str:
    """Return the catalogue, or one entry with its whole documentation, for a terminal."""
    if name is not None:
        entry = find(name)
        return f"{_block(entry)}\n\n{inspect.getdoc(entry.module)}"
    parts = []
    for title, entries in SECTIONS.items():
        parts.append(f"{title}\n{'=' * len(title)}")
        parts += [_block(entry) for entry in entries]
    papers = "\n".join(f"  {short}: {full}" for short, full in CITATIONS.items())
    return "\n\n".join([*parts, f"Notation: {NOTATION}", f"Papers:\n{papers}"])


def _block(entry: Entry) -> str:
    lines = [f"{entry.name}({entry.arguments})", f"  {entry.formula}"]
    if entry.beta:
        lines.append(f"  as β: {entry.beta}")
    return "\n".join([*lines, f"  {entry.paper}"])


def as_markdown() -> str:
    """Return the catalogue as a page of the documentation."""
    parts = ["# Catalogue", "", *NOTATION.splitlines(), ""]
    for title, entries in SECTIONS.items():
        rows = [[f"`{e.name}`", e.formula, e.beta, f"`{e.arguments}`", e.paper] for e in entries]
        table = markdown_table(["class", "formula", "as β", "arguments", "paper"], rows)
        parts += [f"## {title}", "", table, ""]
    parts += ["Papers: " + "; ".join(f"{s}: {f}" for s, f in CITATIONS.items()) + ".", ""]
    parts += ["This page is written by `python -m softmargin.catalogue`.", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    print(as_markdown(), end="")
