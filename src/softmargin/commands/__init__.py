"""The subcommands of ``softmargin``, one module each."""

from dataclasses import replace

from softmargin.commands import (
    apply,
    bench,
    calibrate,
    compare,
    completion,
    data,
    demo,
    doctor,
    fit,
    losses,
    predict,
    reproduce,
    train,
    tune,
)
from softmargin.commands.common import Command

COMMANDS: dict[str, Command] = {
    "demo": demo.COMMAND,
    "fit": fit.COMMAND,
    "predict": predict.COMMAND,
    "calibrate": calibrate.COMMAND,
    "apply": apply.COMMAND,
    "compare": compare.COMMAND,
    "tune": tune.COMMAND,
    "train": train.COMMAND,
    "evaluate": train.EVALUATE_COMMAND,
    "data": data.COMMAND,
    "losses": losses.COMMAND,
    "doctor": doctor.COMMAND,
    "info": replace(doctor.COMMAND, summary="the same as doctor"),
    "bench": bench.COMMAND,
    "reproduce": reproduce.COMMAND,
    "completion": completion.COMMAND,
}
