"""Plots have labels, a legend, and what they were given."""

import pytest
import torch
from matplotlib.figure import Figure

from softmargin.diagnostics import confidence_groups, data_map, plot_data_map, plot_groups

CONFIDENCE = torch.rand(3, 20, generator=torch.Generator().manual_seed(0))


def test_a_data_map_shows_every_sample():
    found = data_map(CONFIDENCE, CONFIDENCE > 0.5, CONFIDENCE - 0.5)
    figure = Figure()
    axes = plot_data_map(found, figure.add_subplot())
    dots = axes.collections[0]
    torch.testing.assert_close(torch.tensor(dots.get_offsets()[:, 1]), found.confidence)
    assert dots.get_array().tolist() == found.correctness.tolist()
    assert axes.get_ylabel() == "confidence (mean over epochs)"
    assert figure.axes[1].get_ylabel() == "correctness (share of epochs)"


def test_groups_are_named_from_hard_to_easy():
    found = confidence_groups(CONFIDENCE)
    axes = plot_groups(found, Figure().add_subplot())
    assert axes.lines[0].get_ydata().tolist() == found.curves[:, 0].tolist()
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names[0] == "group 1 (hardest)"
    assert names[-1] == "group 5 (easiest)"


def test_many_models_are_refused():
    many = CONFIDENCE.expand(2, 3, 20)
    with pytest.raises(ValueError, match="of one model, but got 2 models"):
        plot_data_map(data_map(many, many > 0.5, many), Figure().add_subplot())
    with pytest.raises(ValueError, match="groups must be of one model"):
        plot_groups(confidence_groups(many), Figure().add_subplot())


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="data_map must be a DataMap, but got int"):
        plot_data_map(3)
    with pytest.raises(TypeError, match="groups must be a ConfidenceGroups, but got list"):
        plot_groups([])
