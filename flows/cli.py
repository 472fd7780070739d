"""The `labelscape` command: parses the arguments, runs one command, explains errors.

Nothing heavy is imported here, so that `--help` answers at once.
"""

import argparse
import importlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from flows.commands import COMMANDS
from flows.commands.options import check_arguments, check_environment
from flows.session import Session
from flows.terminal import (
    MAX_TRACEBACK,
    OutputLost,
    TerminalReporter,
    format_command,
    open_closed_streams,
    show,
    show_verbatim,
    tell,
)
from storage.credentials import hide_secrets, learn
from storage.permissions import private_umask
from storage.urls import redact_argument
from tasks.safe_text import join_words

_PIPE_CLOSED = 128 + signal.SIGPIPE


class _Parser(argparse.ArgumentParser):
    """Prints help and errors as the rest of the program does: no control characters, no passwords."""

    def error(self, message: str) -> NoReturn:
        """Print the error, which may repeat an argument, and exit."""
        super().error(hide_secrets(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:
            (tell if file is sys.stderr else show_verbatim)(message.rstrip("\n"))


class _HelpFormatter(argparse.HelpFormatter):
    """Aligns the help of commands: argparse does not count that commands are indented below COMMAND."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument, with room for the longest command."""
        super().add_argument(action)
        indented = self._current_indent + self._indent_increment
        for command in action.choices or () if isinstance(action, argparse._SubParsersAction) else ():
            self._action_max_length = max(self._action_max_length, len(command) + indented)


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser of the chosen command; without one, a parser that only lists the commands.

    Building only the chosen command's parser keeps start-up fast: no other command is imported.
    """
    parser = _Parser(
        prog="labelscape",
        formatter_class=_HelpFormatter,
        description="Embed, annotate and compare collections in which only some items carry labels.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    if chosen in COMMANDS:
        importlib.import_module(f"flows.commands.{COMMANDS[chosen].module}").add_parser(commands)
    else:
        for name, entry in COMMANDS.items():
            commands.add_parser(name, help=entry.help)
    return parser


def start() -> int:
    """Entry point of the process: handle signals; if Prefect failed, exit without waiting for its threads."""
    open_closed_streams()
    session = Session()
    code = main(session=session, own_process=True)
    if session.prefect_failed:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def main(
    arguments: Sequence[str] | None = None, session: Session | None = None, own_process: bool = False
) -> int:
    """Run one command and return its exit code.

    0: success, 1: internal error or lost output, 2: user error, 130 and 143: interrupted, 141: the reader of
    the output has exited.

    With `own_process` the command handles Ctrl-C and SIGTERM, see `flows.interrupts`.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(arguments, session or Session(), own_process)
    except OutputLost as lost:
        return _end_without_output(lost)


def _end_without_output(lost: OutputLost, kept: str = "") -> int:
    """Exit code of a command whose output cannot be written; `kept` says where its results are."""
    if lost.quiet:
        return _PIPE_CLOSED
    tell(f"labelscape: {lost}.{kept}")
    return 1


def _run(arguments: list[str], session: Session, own_process: bool) -> int:
    parser = build_parser(arguments[0] if arguments else None)
    learn(arguments)
    options = parser.parse_args(arguments)
    options.arguments = [redact_argument(argument) for argument in arguments]
    if options.version:
        return _version()
    if options.command is None:
        parser.print_help()
        return 0
    if getattr(options, "json", False):
        session.reporter = TerminalReporter(quiet=True)
    options.session = session
    with private_umask():
        return _dispatch(options, own_process)


def _dispatch(options: argparse.Namespace, own_process: bool) -> int:
    from flows.interrupts import Interrupts, Terminated

    interrupts = Interrupts(lambda number: _stop_text(options, number))
    if own_process and options.resumable:
        interrupts.install()
    try:
        check_arguments(options)
        check_environment()
        return int(options.function(options))
    except KeyboardInterrupt as stop:
        number: int = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
    except OutputLost as lost:
        return _end_without_output(lost, " Results are in the home folder." if options.staged else "")
    except Exception as error:
        if interrupts.received is None:
            code = _explain(error, options)
            if options.resumable and _can_resume(error):
                tell(_resume_line(options))
            return code
        number = interrupts.received  # what was stopped fails in its own way, such as a pool without workers
    except BaseException as stop:
        if not _is_termination(stop):
            raise
        number = signal.SIGTERM
    interrupts.say_last_words(number)
    return interrupts.leave(128 + number)


def _stop_text(options: argparse.Namespace, number: int) -> str:
    """Last lines of an interrupted command."""
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    kept = "; finished stages are kept." if options.staged else "."
    return "\n".join([f"{what}{kept}", *([_resume_line(options)] if options.resumable else [])])


def _resume_line(options: argparse.Namespace) -> str:
    """Command that resumes; stages that were recomputed on request are not recomputed again."""
    done = [part for label in options.session.recomputed for part in ("--done", label)]
    return format_command("resume with:", join_words(["labelscape", *options.arguments, *done]))


def _is_termination(stop: BaseException) -> bool:
    """Whether this is Prefect's error for SIGTERM, raised if a second one arrives during a flow."""
    known = sys.modules.get("prefect.exceptions")
    return known is not None and isinstance(stop, known.TerminationSignal)


def _can_resume(error: Exception) -> bool:
    """Whether the same command can succeed: not if the user must first change its words or its input."""
    from embedding_core.errors import InvalidInput
    from storage.errors import LabelscapeError
    from storage.paths import DISK_FULL, explain_path_error

    if isinstance(error, LabelscapeError):
        return error.resumable
    if isinstance(error, OSError) and explain_path_error(error):
        return error.errno in DISK_FULL
    return not isinstance(error, InvalidInput)


def _explain(error: Exception, options: argparse.Namespace) -> int:
    """Print what went wrong; 2 if the user can fix it, else 1 with a traceback in a file."""
    from embedding_core.errors import InvalidInput
    from storage.errors import LabelscapeError
    from storage.paths import explain_path_error

    if options.verbose:
        import traceback

        tell(hide_secrets("".join(traceback.format_exception(error)).rstrip()), MAX_TRACEBACK)
    if isinstance(error, (LabelscapeError, InvalidInput)):
        tell(f"labelscape: {hide_secrets(str(error))}")
        return 2
    known = explain_path_error(error) if isinstance(error, OSError) else None
    if known:
        tell(f"labelscape: {known}")
        return 2
    file = _write_crash(error, _find_crash_home(options))
    what = hide_secrets(f"{type(error).__name__}: {error}")
    tell(f"labelscape: unexpected {what}\nThe details are in {file}.")
    return 1


def _find_crash_home(options: argparse.Namespace) -> Path:
    """The home folder of the command that failed."""
    from flows.commands.options import read_config, read_default_config
    from flows.config import find_home, resolve_home

    try:
        return find_home(read_config(options) if hasattr(options, "set") else read_default_config(options))
    except Exception:  # reading the configuration may be what failed
        with suppress(Exception):
            return resolve_home(options.home)
    return Path(tempfile.gettempdir())


def _write_crash(error: BaseException, home: Path) -> Path:
    """Write the traceback to the home folder, or to the temporary folder of the system; return the file."""
    import time
    import traceback

    from storage.artifacts.disk import write_atomically

    command = shlex.join(map(redact_argument, sys.argv))
    details = hide_secrets("".join(traceback.format_exception(error)))
    text = f"{command}\nPython {sys.version}\n\n{details}"
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for file in (home / "logs" / name, Path(tempfile.gettempdir()) / name):
        try:
            write_atomically(file, text.encode("utf-8", "backslashreplace"))
        except OSError:
            continue
        return file
    return Path(os.devnull)


def _version() -> int:
    from flows import __version__

    show(f"labelscape {__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(start())
