"""The subcommands of ``softmargin``, one module each."""

from softmargin.commands import (
    apply,
    calibrate,
    compare,
    completion,
    data,
    demo,
    losses,
    reproduce,
    train,
)
from softmargin.commands.common import Command

COMMANDS: dict[str, Command] = {
    "demo": demo.COMMAND,
    "calibrate": calibrate.COMMAND,
    "apply": apply.COMMAND,
    "compare": compare.COMMAND,
    "train": train.COMMAND,
    "evaluate": train.EVALUATE_COMMAND,
    "data": data.COMMAND,
    "losses": losses.COMMAND,
    "reproduce": reproduce.COMMAND,
    "completion": completion.COMMAND,
}
