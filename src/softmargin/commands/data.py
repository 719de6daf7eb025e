"""``softmargin data``: list, fetch, verify and find data sets."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from softmargin._table import print_table
from softmargin._text import printable
from softmargin.commands.common import Command, UsageError
from softmargin.data.download import obtain
from softmargin.data.entry import DatasetEntry
from softmargin.data.errors import MissingDataError, Sentence
from softmargin.data.files import Found, cache_folder, check, existing, find, search_folders
from softmargin.data.registry import ENTRIES, entry_of, groups, overview

SUMMARY = "list, fetch, verify and find the data sets"
DESCRIPTION = """\
List, fetch, verify and find the data sets. They are looked for in $SOFTMARGIN_DATA, then in the
cache, and downloaded to the cache."""

_ACTIONS = {
    "list": "list every data set, and where it is on this machine",
    "fetch": "download data sets that are not on this machine",
    "verify": "check the files on this machine against their checksums",
    "path": "print the folder of data sets; without a name, that of the cache",
}
_HELP = "data set, or uci for all of its tables"
_NAME, _ROOT = "argument NAME:", "argument --root:"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin data``."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for action, summary in _ACTIONS.items():
        sub = actions.add_parser(action, help=summary, description=f"{summary.capitalize()}.")
        default = "" if action in ("fetch", "path") else " (default: all)"
        sub.add_argument("names", nargs="*", metavar="NAME", help=_HELP + default)
        if action == "fetch":
            sub.add_argument("--all", action="store_true", help="all that can be downloaded")
        sub.add_argument(
            "--root", metavar="DIR", help="the only folder to look in and to download to"
        )


def run(options: argparse.Namespace) -> None:
    """Run one action; show what went wrong in one sentence."""
    try:
        act(options)
    except BrokenPipeError:
        raise
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        # our own errors are sentences; those of the system have a number, a reason and a file
        known = error.strerror is None
        text = str(error) if known else f"{error.filename or 'a file'}: {error.strerror}."
        raise UsageError(text if known else printable(text, None)) from None


def act(options: argparse.Namespace) -> None:
    """Run one action; raise ``ValueError``, ``OSError`` or ``ImportError`` with one sentence."""
    if options.root is not None:
        existing(_ROOT, options.root)
    meant = {entry.name: entry for name in options.names for entry in _meant(name)}
    if options.action == "fetch":
        _check_asked(options)
    entries = list((meant or ENTRIES).values())
    {"list": _list, "fetch": _fetch, "verify": _verify, "path": _path}[options.action](
        entries, options
    )


def _meant(name: str) -> list[DatasetEntry]:
    if name.rstrip("/") in groups():
        return [entry for entry in ENTRIES.values() if entry.group == name.rstrip("/")]
    return [entry_of(name, _NAME)]


def _check_asked(options: argparse.Namespace) -> None:
    """Refuse to download everything unless that was asked for."""
    if options.all and options.names:
        raise ValueError(
            f"argument --all: stands for every data set, but {options.names[0]!r} was given too."
        )
    if not options.all and not options.names:
        total = sum(entry.megabytes for entry in ENTRIES.values() if entry.has_download)
        raise ValueError(
            f"{_NAME} must name what to fetch, of {overview()}; --all fetches all that can be "
            f"downloaded ({total} MB)."
        )


def _list(entries: list[DatasetEntry], options: argparse.Namespace) -> None:
    folders, named = search_folders(options.root), options.root is not None
    rows = [("name", "classes", "train", "test", "where")]
    for entry in entries:
        sizes = (str(entry.num_classes), str(entry.train), str(entry.test or "-"))
        found = find(entry, folders, named=named)
        rows.append((entry.name, *sizes, _where(entry, found)))
    print_table(rows, right=rows[0][1:4])


def _where(entry: DatasetEntry, found: Found | None) -> str:
    if entry.bundled:
        return "in scikit-learn"
    if found is not None:
        return str(found.folder) + (" (a part)" if found.is_part else "")
    size = f"{entry.megabytes} MB" if entry.megabytes else "under 1 MB"
    return f"to download, {size}" if entry.has_download else "missing; no download"


def _fetch(entries: list[DatasetEntry], options: argparse.Namespace) -> None:
    def fetched(entry: DatasetEntry) -> str:
        found = None
        if not entry.bundled and (options.names or entry.has_download):
            found = obtain(entry, options.root)
            check(found)
        return _where(entry, found)

    _print_each(entries, fetched)


def _verify(entries: list[DatasetEntry], options: argparse.Namespace) -> None:
    def verified(entry: DatasetEntry) -> str:
        records = check(obtain(entry, options.root, download=False))
        unknown = sum(not record.verified for record in records)
        note = f", {unknown} without a checksum" if unknown else ""
        number = len(records) - unknown
        return f"{number} file{'s' * (number != 1)} verified{note}"

    folders, named = search_folders(options.root), options.root is not None
    entries = [entry for entry in entries if not entry.bundled]
    if not options.names:
        entries = [entry for entry in entries if find(entry, folders, named=named) is not None]
    if not entries:
        looked = " and ".join(map(str, folders))
        raise MissingDataError(f"there is no data set to verify in {looked}.")
    _print_each(entries, verified)


def _print_each(entries: list[DatasetEntry], line: Callable[[DatasetEntry], str]) -> None:
    """Print a line for each data set, all of them before saying what went wrong."""
    failed: list[Sentence] = []
    for entry in entries:
        try:
            print(f"{entry.name}: {line(entry)}")
        except Sentence as error:
            failed.append(error)
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise type(failed[0])(str(failed[0]).removesuffix(".") + f"{more}.")


def _path(entries: list[DatasetEntry], options: argparse.Namespace) -> None:
    if not options.names:
        print(options.root or cache_folder())
        return
    for entry in entries:
        if entry.bundled:
            raise MissingDataError(f"{entry.name} has no folder: it comes with scikit-learn.")
        found = obtain(entry, options.root, download=False)
        print(found.folder)


COMMAND = Command(SUMMARY, DESCRIPTION, declare, run)
