"""The list of ids is what the modules declare."""

from importlib import import_module

import pytest

from softmargin.papers.ids import MODULES, check_id, ids


@pytest.mark.parametrize("module", MODULES)
def test_a_module_declares_the_ids_that_are_listed(module):
    declared = import_module(f"softmargin.papers.{module}").EXPERIMENTS
    assert sorted(each.id for each in declared) == sorted(MODULES[module])
    assert {each.paper for each in declared} == {each.id.split("-")[0].upper() for each in declared}


def test_ids_stand_in_the_order_of_the_papers():
    known = ids()
    assert len(set(known)) == len(known)
    assert known.index("gd-fig9") < known.index("gd-fig10") < known.index("gd-tab1")
    assert known.index("gd-v1-tab5") < known.index("lm-fig1") < known.index("ag-fig1")


def test_an_unknown_id_is_answered_with_the_nearest():
    check_id("gd-tab1")
    check_id("all")
    with pytest.raises(ValueError, match="such as gd-tab.*, but got 'gd-tab'"):
        check_id("gd-tab")
