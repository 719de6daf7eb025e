"""``softmargin data``: list, fetch, verify and find data sets."""

from __future__ import annotations

import argparse

from softmargin.commands.common import Command, UsageError
from softmargin.data import command


def run(options: argparse.Namespace) -> None:
    """Run one action; show what went wrong in one sentence."""
    try:
        command.run(options)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None


COMMAND = Command(command.SUMMARY, command.DESCRIPTION, command.declare, run)
