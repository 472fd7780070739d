"""The `labelscape` command: parses the arguments, runs one command, explains errors.

Nothing heavy is imported here, so that `--help` answers at once.
"""

import argparse
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.commands import COMMANDS
from flows.session import Session
from flows.terminal import TerminalReporter, format_command, show, tell


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
    parser = argparse.ArgumentParser(
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
    """Run one command; exit code 0: success, 1: internal error, 2: user error, 130 and 143: interrupted.

    With `own_process` the command handles Ctrl-C and SIGTERM, see `flows.interrupts`.
    """
    session = session or Session()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser(arguments[0] if arguments else None)
    options = parser.parse_args(arguments)
    options.arguments = arguments
    if options.version:
        return _version()
    if options.command is None:
        parser.print_help()
        return 0
    if getattr(options, "json", False):
        session.reporter = TerminalReporter(quiet=True)
    options.session = session
    return _dispatch(options, own_process)


def _dispatch(options: argparse.Namespace, own_process: bool) -> int:
    from flows.interrupts import Interrupts, Terminated

    interrupts = Interrupts(lambda number: _stop_text(options, number))
    if own_process and options.resumable:
        interrupts.install()
    try:
        return int(options.function(options))
    except KeyboardInterrupt as stop:
        number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
    except BrokenPipeError:
        # The reader of the pipe has exited (for instance `head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        code = _explain(error, options)
        if options.resumable and _can_resume(error, options.staged):
            tell(_resume_line(options))
        return code
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
    return format_command("resume with:", shlex.join(["labelscape", *options.arguments, *done]))


def _is_termination(stop: BaseException) -> bool:
    """Whether this is Prefect's error for SIGTERM, raised if a second one arrives during a flow."""
    known = sys.modules.get("prefect.exceptions")
    return known is not None and isinstance(stop, known.TerminationSignal)


def _can_resume(error: Exception, staged: bool) -> bool:
    """Whether repeating the command can succeed after an error; not if the command itself must change.

    A command that runs stages can be repeated once its source or store is fixed. Other commands can be
    repeated only after an internal error, or if a store did not answer.
    """
    from embedding_core.errors import InvalidInput
    from storage.errors import ConfigError, LabelscapeError, StoreUnreachable

    if isinstance(error, (ConfigError, InvalidInput)):
        return False
    return staged or not isinstance(error, LabelscapeError) or isinstance(error, StoreUnreachable)


def _explain(error: Exception, options: argparse.Namespace) -> int:
    """Print what went wrong; 2 if the user can fix it, else 1 with a traceback in a file."""
    from embedding_core.errors import InvalidInput
    from storage.errors import LabelscapeError

    if options.verbose:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, (LabelscapeError, InvalidInput)):
        tell(f"labelscape: {error}")
        return 2
    file = _write_crash(error, _find_crash_home(options))
    tell(f"labelscape: unexpected {type(error).__name__}: {error}\nThe details are in {file}.")
    return 1


def _find_crash_home(options: argparse.Namespace) -> Path:
    """The home folder of the command that failed."""
    from flows.commands.options import read_config, read_default_config
    from flows.config import find_home, resolve_home

    try:
        return find_home(read_config(options) if hasattr(options, "set") else read_default_config(options))
    except Exception:  # reading the configuration may be what failed
        return resolve_home(options.home)


def _write_crash(error: BaseException, home: Path) -> Path:
    """Write the traceback to the home folder, or to the temporary folder of the system; return the file."""
    import tempfile
    import time
    import traceback

    from storage.urls import redact_text

    text = f"{shlex.join(sys.argv)}\nPython {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (home / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / name
            file.write_text(redact_text(text), encoding="utf-8")
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
