"""The subcommands of ``softmargin``, one module each."""

from softmargin.commands import (
    apply,
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
    "info": info.COMMAND,
    "reproduce": reproduce.COMMAND,
    "completion": completion.COMMAND,
}
