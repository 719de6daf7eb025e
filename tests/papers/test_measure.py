"""What is measured of trained networks."""

import math

import pytest
import torch

from softmargin.papers.measure import diagram, evenly_ranked, scaled, scores, shifted


def test_shifting_logits_keeps_every_probability_and_close_calls():
    torch.manual_seed(0)
    logits = 300 + 3 * torch.randn(200, 10)
    logits[:, 0] = logits[:, 1:].amax(1) + 1e-3
    stored = shifted(logits).float()
    assert torch.equal(stored.argmax(1), logits.argmax(1))
    assert torch.allclose(stored.softmax(1), logits.softmax(1), atol=2e-3)


def test_a_network_that_diverged_has_no_scores():
    logits = torch.full((4, 3), float("nan"))
    y = torch.tensor([0, 1, 2, 0])
    assert all(math.isnan(value) for value in scores(shifted(logits), y).values())
    after = scaled(logits, y, logits, y)
    assert math.isnan(after["scaled"]["temperature"]["ece"])
    assert math.isnan(after["held_out"]["raw"]["nll"])
    assert math.isnan(after["temperature"])


def test_scaling_is_fitted_on_held_out_images_only():
    torch.manual_seed(0)
    y = torch.randint(0, 5, (4000,))
    logits = torch.randn(4000, 5)
    logits[torch.arange(4000), y] += 1.5
    sure = 8 * logits
    after = scaled(sure[:2000], y[:2000], sure[2000:], y[2000:])
    found = after["scaled"]
    before = scores(shifted(sure[2000:]), y[2000:])
    assert found["temperature"]["ece"] < 0.05 < before["ece"]
    assert found["temperature"]["accuracy"] == pytest.approx(before["accuracy"])
    assert found["vector"]["ece"] < 0.05
    assert after["temperature"] == pytest.approx(8 / 1.5, rel=0.1)  # of the log-odds
    assert after["held_out"]["raw"] == scores(sure[:2000], y[:2000])
    assert after["held_out"]["temperature"]["nll"] < after["held_out"]["raw"]["nll"]


def test_a_diagram_has_the_counts_and_means_of_every_bin():
    y = torch.tensor([0, 1, 0, 1])
    p = torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.62, 0.38], [0.35, 0.65]])
    found = diagram(p.log(), y)
    assert [found["counts"][bin] for bin in (5, 6, 9)] == [0, 2, 2]
    assert found["accuracy"][9] == 0.5
    assert found["confidence"][6] == pytest.approx(0.635, abs=1e-6)


def test_traced_samples_are_chosen_by_rank_alone():
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    chosen = evenly_ranked(values, 20)
    ranks = values.argsort().argsort()[chosen]
    assert ranks.tolist() == [*range(10, 200, 20), *range(240, 1000, 80)]
