"""``softmargin apply``: predictions in a file, calibrated by what ``calibrate --save`` wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from softmargin._text import one_line, printable
from softmargin.commands.calibrate import are_logits, check_file, declare_content, saving_to
from softmargin.commands.common import Command, UsageError, progress, quoted, require_reader

DESCRIPTION = """\
Calibrate predictions in a file, with a calibrator that softmargin calibrate --save wrote.
The new file has the format of FILE: logits become calibrated logits, probabilities
calibrated probabilities, and all else stays. It needs no labels. Formats and names are
those of softmargin calibrate; the classes must be in the same order as there, and
predictions of the same kind.

example:
  softmargin calibrate validation.csv --save calibrator.json
  softmargin apply calibrator.json test.csv     writes test-calibrated.csv"""
ENDINGS = (".csv.gz", ".tsv.gz")  # of two parts


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin apply``."""
    parser.add_argument("calibrator", type=Path, metavar="CALIBRATOR", help="a calibrator's JSON")
    parser.add_argument("file", type=Path, metavar="FILE", help="the predictions")
    declare_content(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the new file (default: FILE's name with -calibrated, beside FILE)",
    )


def run(options: argparse.Namespace) -> None:
    """Read, calibrate and write."""
    for name in ("calibrator", "file"):
        path = getattr(options, name)
        if not path.is_file():
            raise UsageError(
                f"{name.upper()} must be a file that exists, but got {quoted(str(path))}."
            )
    ending = _ending(options.file)
    out = options.out
    if out is None:
        out = options.file.with_name(f"{options.file.name[: -len(ending)]}-calibrated{ending}")
    if _ending(out).lower() != ending.lower():
        raise UsageError(
            f"argument --out: must end in {ending}, as FILE does, but got {quoted(str(out))}."
        )
    check_file(out, "--out", [options.calibrator, options.file])
    require_reader(options.file)
    from softmargin.calibration.applying import apply_calibrator
    from softmargin.calibration.scaling import load_calibrator

    with progress() as show, saving_to(out, "--out"):
        try:
            rows = apply_calibrator(
                load_calibrator(options.calibrator),
                options.file,
                out,
                predictions=options.predictions,
                from_logits=are_logits(options),
                progress=lambda done, total: show(done, total, "calibrating"),
            )
        except (ValueError, TypeError) as error:
            raise UsageError(one_line(str(error))) from None
    print(f"Calibrated: {printable(str(out), None)}, {rows} predictions")


def _ending(path: Path) -> str:
    """Return the end of a name that tells the format, as it is spelled."""
    name = path.name
    return next((name[-len(x) :] for x in ENDINGS if name.lower().endswith(x)), path.suffix)


COMMAND = Command("calibrate predictions by what calibrate --save wrote", DESCRIPTION, declare, run)
