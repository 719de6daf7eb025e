"""The ``softmargin`` command.

A subcommand is a module of :mod:`softmargin.commands`; what it needs is imported when it runs. So
is all that this module needs, so that ctrl-C is answered from the first moment on.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # signal itself takes longer
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

BAD_INPUT, INTERRUPTED = 2, 130
RESUMES = "; the same command resumes where it stopped"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Without arguments it reads those of the process, which is then its own to the end.
    """
    session = Session()
    if arguments is not None:
        return session.run(arguments)
    session.own_process()
    try:
        return session.run(sys.argv[1:])
    finally:
        session.end_quietly()


class Session:
    """One run of the command line: its name in messages, and what an interrupt means to it."""

    def __init__(self) -> None:
        """Start before it is known which command is meant."""
        self.name, self.resumes, self.interrupted = "softmargin", False, False

    def run(self, words: Sequence[str]) -> int:
        """Run what the words say; return the exit code."""
        try:
            return self._run(words)
        except KeyboardInterrupt:
            return self.say_interrupted()
        except BrokenPipeError:  # the reader, such as head, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception:
            if not self.interrupted:  # libraries make other errors of an interrupt
                raise
            return self.say_interrupted()

    def _run(self, words: Sequence[str]) -> int:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal without Greek letters shows "?"
                stream.reconfigure(errors="replace")
        from softmargin._text import one_line
        from softmargin._warnings import plain_warnings
        from softmargin.commands import COMMANDS
        from softmargin.commands.common import UsageError
        from softmargin.commands.parser import parse

        with plain_warnings():
            options = parse(words)
            if options.command is None:
                return 0
            self.name, self.resumes = f"softmargin {options.command}", options.resumes
            try:
                code = COMMANDS[options.command].run(options)
            except UsageError as error:
                print(f"{self.name}: {one_line(str(error))}", file=sys.stderr)
                return BAD_INPUT
        sys.stdout.flush()
        return code or 0

    def say_interrupted(self) -> int:
        """Say that ctrl-C was pressed; return the exit code."""
        self.end_quietly()
        text = f"{self.name}: interrupted{RESUMES if self.resumes else ''}."
        print(text, file=sys.stderr, flush=True)
        return INTERRUPTED

    def own_process(self) -> None:
        """Answer ctrl-C, unless the parent has it ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            sys.unraisablehook = _raise_later

    def end_quietly(self) -> None:
        """Let another ctrl-C end the process at once, where this one answers it."""
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the work; in an import end at once, since nothing is under way then.

        Libraries do not expect an exception there: they print it, drop it or make another of it.
        """
        self.interrupted = True
        while frame is not None:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                os._exit(self.say_interrupted())
            frame = frame.f_back
        raise KeyboardInterrupt


def _raise_later(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that came where none can be raised, as in a destructor."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    # to the process, not to that thread: the main one may be waiting
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()


if __name__ == "__main__":
    sys.exit(main())
