"""Every test has an empty cache of its own, and no data folder unless it is marked ``data``."""

import gc
import os
import threading
import warnings
from pathlib import Path

import pytest
from loopback import Server

GIVEN = os.environ.get("SOFTMARGIN_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch, request):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SOFTMARGIN_CACHE", str(folder))
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("SOFTMARGIN_DATA", raising=False)
    return folder


@pytest.fixture
def given():
    """Return the folder with the real files."""
    return Path(GIVEN)


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()
    with warnings.catch_warnings():  # connections that failed go now, not during another test
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
