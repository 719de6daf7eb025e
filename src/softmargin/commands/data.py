"""``softmargin data``: list, fetch, verify and find data sets."""

from __future__ import annotations

import argparse

from softmargin._text import printable
from softmargin.commands.common import Command, UsageError
from softmargin.data import command


def run(options: argparse.Namespace) -> None:
    """Run one action; show what went wrong in one sentence."""
    try:
        command.run(options)
    except BrokenPipeError:
        raise
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        # our own errors are sentences; those of the system have a number, a reason and a file
        known = error.strerror is None
        text = str(error) if known else f"{error.filename or 'a file'}: {error.strerror}."
        raise UsageError(text if known else printable(text, None)) from None


COMMAND = Command(command.SUMMARY, command.DESCRIPTION, command.declare, run)
