"""Findings and the one rule for a verdict."""

import numpy as np
import pytest

from softmargin.papers import methods as m
from softmargin.papers.core import Result, Scope
from softmargin.papers.findings import Best, Compare, Finding, Monotone, compare, verdict
from softmargin.papers.grid import Plan, Task
from softmargin.papers.runs import ACCURACY, Runs

METHODS = m.betas(5, 1, 0.1)
TASK = Task("digits", "digits", "fcnn", {"epochs": 1}, methods=METHODS)


def runs_of(*accuracies):
    """Return runs of three seeds with these accuracies in %, for β = 5, 1 and 0.1."""
    plan, scope = Plan([(TASK, METHODS)], []), Scope("desk", (0, 1, 2))
    names = [method.name for method in METHODS]
    finished = []
    for seed, cell in enumerate(plan.cells(scope)):
        final = {"accuracy": [values[seed] / 100 for values in accuracies]}
        finished.append((cell, Result({"variants": names, "final": final})))
    return Runs(scope, finished, plan)


RISING = runs_of((70, 71, 72), (71, 72, 73.5), (73, 73, 74))


def test_a_finding_needs_all_three_seeds_on_one_side():
    base = np.array([70.0, 71.0, 72.0])
    clear, unclear = (base + np.array(d) for d in ([0.1, 0.2, 0.3], [0.3, 0.2, -0.1]))
    values = {"a": clear, "b": base, "c": unclear}
    assert compare("x", values, ("a", "b"), 1).agrees is True
    assert compare("x", values, ("a", "b"), -1).agrees is False
    assert compare("x", values, ("c", "b"), 1).agrees is None
    assert "paired difference +0.20" in compare("x", values, ("a", "b"), 1).text
    assert compare("x", {"a": clear, "b": base * np.nan}, ("a", "b"), 1).agrees is None


@pytest.mark.parametrize(
    ("rule", "agrees"),
    [
        (Compare(ACCURACY, "β = 0.1", 1), True),
        (Compare(ACCURACY, "β = 5", 1), False),
        (Compare(ACCURACY, "β = 0.1", -1, other="β = 5"), False),
        (Compare(ACCURACY, "β = 5", 1, margin=2), True),
        (Compare(ACCURACY, "β = 5", 1, margin=1.1), None),
        (Compare(ACCURACY, "β = 5", 1, margin=0.5), False),
        (Compare(ACCURACY, "β = 0.1", -1, margin=2.5), True),
        (Monotone(ACCURACY, 1), True),
        (Monotone(ACCURACY, -1), False),
        (Monotone(ACCURACY, -1, ("β = 0.1", "β = 5")), True),
        (Best(ACCURACY, "β = 0.1"), True),
        (Best(ACCURACY, "β = 5"), False),
        (Best(ACCURACY, "β = 5", -1), True),
    ],
)
def test_three_kinds_of_finding(rule, agrees):
    (finding,) = rule(RISING, TASK)
    assert finding.agrees is agrees
    assert finding.text.startswith("on digits, top-1 accuracy in %")


def test_nothing_is_found_of_other_data_or_of_methods_that_were_not_trained():
    assert Compare(ACCURACY, "β = 0.1", 1, data=("cifar10",))(RISING, TASK) == []
    assert Compare(ACCURACY, "β = 20", 1)(RISING, TASK) == []
    assert len(Compare(ACCURACY, "β = 0.1", 1, data=("digits",))(RISING, TASK)) == 1


def test_a_difference_within_the_spread_is_left_open_either_way():
    runs = runs_of((71.5, 71.5, 74), (71, 72, 73.5), (70, 70, 70))
    assert Compare(ACCURACY, "β = 5", 1)(runs, TASK)[0].agrees is None
    assert Compare(ACCURACY, "β = 5", -1)(runs, TASK)[0].agrees is None


def test_a_method_that_diverged_is_not_the_best():
    runs = runs_of((70, 71, 72), (71, np.nan, 73), (69, 70, 71))
    assert Best(ACCURACY, "β = 5")(runs, TASK)[0].agrees is True
    assert Compare(ACCURACY, "β = 5", 1)(runs, TASK)[0].agrees is None


def test_the_best_is_left_open_within_the_spread_of_the_runner_up():
    runs = runs_of((71.5, 71.5, 74), (71, 72, 73.5), (70, 70, 70))
    (first,) = Best(ACCURACY, "β = 5")(runs, TASK)
    (second,) = Best(ACCURACY, "β = 1")(runs, TASK)
    assert (first.agrees, second.agrees) == (None, None)
    assert "is highest for β = 5, 72.33 ± 1.44 (β = 1 has 72.17 ± 1.26)" in first.text
    assert Best(ACCURACY, "β = 0.1")(runs, TASK)[0].agrees is False


def test_p_values_are_corrected_over_the_findings_of_a_verdict():
    rules = (Compare(ACCURACY, "β = 0.1", 1), Monotone(ACCURACY, 1), Best(ACCURACY, "β = 0.1"))
    found = verdict("desk", [each for rule in rules for each in rule(RISING, TASK)])
    first, second, third = found.findings
    assert (first.exact, second.p, second.adjusted) == (0.25, None, None)
    assert first.p == third.p == pytest.approx(0.1181, abs=1e-4)
    assert first.adjusted == third.adjusted == pytest.approx(2 * first.p)
    assert "; p = 0.118 by paired t-test, 0.236 after Holm, 0.250 exact" in first.told
    assert found.significance == (
        "Of the 2 comparisons that it rests on, none is significant after Holm's correction "
        "(paired t-test, p < 0.05). With the measured spread, the clearest of them would need 7 "
        "seeds (power 80 %)."
    )


def test_verdicts_follow_from_findings():
    yes, no = Finding("a is 1", True), Finding("b is 2", False)
    assert verdict("desk", [yes, yes]).word == "holds"
    assert verdict("desk", [no]).word == "does not hold"
    mixed = verdict("desk", [yes, no])
    assert mixed.word == "holds in part"
    assert mixed.sentence == "As claimed, a is 1; unlike the claim, b is 2."
    unsure = verdict("desk", [yes, Finding("c was not reached", None)])
    assert unsure.word == "holds in part"
    assert unsure.sentence == "As claimed, a is 1; left open, c was not reached."
    open_ = Finding("c was not reached", None)
    assert verdict("desk", [open_, open_]).word == "left open"
    assert verdict("desk", [open_, no]).word == "does not hold"
    assert verdict("smoke", [yes]).word == "path only"
