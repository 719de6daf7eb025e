"""Shared set-up: one thread, a fixed seed before every test."""

import os

import pytest
import torch


def pytest_configure() -> None:
    torch.set_num_threads(1)  # two threads that fight over small tensors are slower than one
    os.environ.pop("COLUMNS", None)  # the width of a runner's terminal is not what is tested


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def pytest_addoption(parser):
    parser.addoption(
        "--all-classes",
        action="store_true",
        help="compile every loss and head for every number of classes (an hour of one core)",
    )
