"""The page that maps the papers' equations to functions: all numbers, and formulas that hold."""

import math
import re
from pathlib import Path

import pytest
import torch

import softmargin
from softmargin import functional, heads, theory

PAGE = Path(__file__).parent.parent / "docs" / "equations.md"
NUMBERED = {"GD": 21, "GD-v1": 25, "LM": 15, "AG": 22}  # what the last equation of a paper is


def numbers(cell):
    """Return the numbers in a cell such as ``13, 15`` or ``20-22``."""
    for part in cell.split(", "):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_equation_of_a_paper_has_its_row(paper):
    (section,) = re.findall(rf"^## {paper}, (.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.S | re.M)
    rows = [row.split(" | ") for row in re.findall(r"^\| (\d.*) \|$", section, re.M)]
    found = sorted(number for row in rows for number in numbers(row[0]))
    assert found == list(range(1, NUMBERED[paper] + 1))
    assert [row for row in rows if "`" not in row[2] and "](" not in row[2]] == []


def test_equations_name_functions_that_exist():
    named = re.findall(
        r"`(F|theory|heads|schedules|center|diagnostics)\.(\w+)", PAGE.read_text("utf-8")
    )
    assert len(named) > 50
    for module, name in named:
        home = functional if module == "F" else getattr(softmargin, module)
        assert hasattr(home, name), f"{module}.{name}"


def test_a_small_temperature_leaves_the_largest_gap():
    logits, target = 3 * torch.randn(20, 5), torch.randint(0, 5, (20,))
    largest = functional.hard_log_odds(logits, target, tau=1e-3)
    assert torch.allclose(functional.log_odds(logits, target, tau=1e-3), largest, rtol=1e-3)


def test_gaps_of_angles_are_those_of_arcgrad():
    head = heads.ArcGradHead(4, 3, scale=1.0)
    features, target = torch.randn(6, 4), torch.randint(0, 3, (6,))
    angles = functional.angles(features, head.weight)
    own = angles.gather(1, target[:, None]).squeeze(1)
    others = angles.scatter(1, target[:, None], math.inf).amin(1)
    found = -functional.hard_log_odds(head(features), target)
    assert torch.allclose(found, others - own, atol=1e-5)


def test_equally_near_classes_give_softplus_of_the_gap():
    classes, scale, gap = 7, 5.0, 0.3
    logits = torch.full((1, classes), -scale * gap)
    logits[0, 2] = 0.0
    loss = functional.gradient_decay_loss(logits, torch.tensor([2]))
    assert float(loss) == pytest.approx(theory.softplus(math.log(classes - 1) - scale * gap))
