"""Without a framework, or with one that is too old, one sentence says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from softmargin.integrations import _extras

NEEDS = {
    "transformers": "transformers",
    "lightning": "lightning",
    "skorch": "skorch",
    "torchmetrics": "torchmetrics",
    "boosting.xgboost": "xgboost",
    "boosting.lightgbm": "lightgbm",
}


@pytest.mark.parametrize("module", NEEDS)
def test_a_missing_framework_is_named_with_its_extra(module, monkeypatch):
    full = f"softmargin.integrations.{module}"
    for name in list(sys.modules):
        if name == full or name.startswith(f"{full}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, NEEDS[module], None)
    extra = module.partition(".")[0]
    with pytest.raises(ImportError) as raised:
        __import__(full)
    assert f"softmargin.integrations.{extra} needs {NEEDS[module]}" in str(raised.value)
    assert str(raised.value).endswith(f'which is missing: pip install "softmargin[{extra}]".')


def test_an_old_framework_is_named_with_its_version():
    with pytest.raises(ImportError, match=r"needs pytest 900\.1 or newer, but found \d.*: pip ins"):
        _extras.need("pytest", "skorch", "900.1")


def test_what_a_framework_misses_itself_is_its_own_message(tmp_path, monkeypatch):
    (tmp_path / "broken_framework.py").write_text("import what_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'what_it_needs'"):
        _extras.need("broken_framework", "skorch", "1.0")


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, softmargin.integrations.boosting, softmargin.integrations.loggers; "
        "print([m for m in ('transformers', 'lightning', 'skorch', 'torchmetrics', 'xgboost', "
        "'lightgbm', 'sklearn', 'torchvision') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
