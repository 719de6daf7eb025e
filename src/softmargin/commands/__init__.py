"""The subcommands of ``softmargin``, one module each."""

from softmargin.commands import (
    apply,
    bench,
    calibrate,
    compare,
    completion,
    data,
    demo,
    fit,
    info,
    losses,
    predict,
    reproduce,
    train,
)
from softmargin.commands.common import Command

COMMANDS: dict[str, Command] = {
    "demo": demo.COMMAND,
    "fit": fit.COMMAND,
    "predict": predict.COMMAND,
    "calibrate": calibrate.COMMAND,
    "apply": apply.COMMAND,
    "compare": compare.COMMAND,
    "train": train.COMMAND,
    "evaluate": train.EVALUATE_COMMAND,
    "data": data.COMMAND,
    "losses": losses.COMMAND,
    "info": info.COMMAND,
    "bench": bench.COMMAND,
    "reproduce": reproduce.COMMAND,
    "completion": completion.COMMAND,
}
