"""The subcommands of ``softmargin``, one module each."""

from softmargin.commands import demo, losses
from softmargin.commands.common import Command

COMMANDS: dict[str, Command] = {"demo": demo.COMMAND, "losses": losses.COMMAND}
