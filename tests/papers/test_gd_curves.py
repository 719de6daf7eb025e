"""Curves of confidence and accuracy on MNIST: what is read off them."""

import made_up_cells
import numpy as np
import pytest
from smoke_runs import MNIST

from softmargin.papers import gd_groups
from softmargin.papers.outcome import VERDICTS


def test_the_gap_is_taken_where_variants_are_equally_far():
    # means .5, .8, 1.0 and gaps .2, .4, 0: a mean of .9 lies half way between the last two
    curve = np.array([[0.4, 0.5, 0.5, 0.5, 0.6], [0.6, 0.8, 0.8, 0.8, 1.0], [1.0] * 5])
    slow = curve[:2].repeat([1, 2], 0)
    found = gd_groups.gap_at_progress(np.stack([curve, slow]))
    assert found[0] == pytest.approx(0.2)
    assert np.isnan(found[1])
    late = gd_groups.gap_at_progress(np.ones((1, 3, 5)))
    assert np.isnan(late).all()  # past the level before the first epoch ended


def test_epochs_until_half_count_from_one():
    curves_of_groups = np.array([[[0.1, 0.5], [0.2, 0.6], [0.7, 0.9]]])
    assert gd_groups.epochs_until(curves_of_groups).tolist() == [[3, 1]]
    assert np.isnan(gd_groups.epochs_until(np.zeros((1, 3, 2)))).all()


def test_drawn_epochs_thin_out_but_keep_the_ends():
    assert gd_groups.drawn_epochs(8) == list(range(1, 9))
    drawn = gd_groups.drawn_epochs(100)
    assert drawn[:10] == list(range(1, 11))
    assert drawn[-1] == 100
    assert len(drawn) == 55


@pytest.mark.parametrize("experiment", MNIST, ids=lambda each: each.id)
def test_every_outcome_is_judged_at_desk_scale(experiment):
    scope = experiment.scope("desk")
    outcome = experiment.conclude(scope, made_up_cells.finished(experiment.cells(scope)))
    assert outcome.verdict.word in list(VERDICTS)[:4]
    assert any(digit in outcome.verdict.sentence for digit in "0123456789")
    assert "nan" not in outcome.verdict.sentence
