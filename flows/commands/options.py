"""Arguments that several commands share, and the configuration that they select.

Nothing heavy is imported at module level, so that `--help` of a command answers at once.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from flows.commands import COMMANDS
from storage.paths import find_text_problem, shorten_middle

if TYPE_CHECKING:
    from flows.config import RunConfig
    from storage.tracking.client import Tracker

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_URI_HELP = (
    "MLflow URI (default: the database in the home folder). Put a password into labelscape.toml or"
    " MLFLOW_TRACKING_PASSWORD: other users see arguments"
)
_SOURCE_HELP = (
    "a TOML configuration, a folder of images, a table, an ARFF file, or a built-in data set"
    " (default: labelscape.toml in this folder, else the demo)"
)

# Arguments whose names differ from those on the command line.
_NAMES = {"as_run": "as", "since": "from"}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# OpenMP accepts one number for each level of nesting.
_THREAD_COUNTS = re.compile(r"\s*0*[1-9]\d{0,4}(\s*,\s*0*[1-9]\d{0,4})*\s*")


def add_command(
    commands: Subparsers,
    name: str,
    function: Callable[[argparse.Namespace], int],
    *,
    json: bool = False,
    resumable: bool = False,
    staged: bool = False,
) -> argparse.ArgumentParser:
    """Add the parser of a command, with the arguments that every command has.

    Parameters
    ----------
    commands : subparsers
    name : str
        The name in `flows.commands.COMMANDS`.
    function : callable
        Takes the parsed options, returns the exit code.
    json : bool
        Whether there is `--json`.
    resumable : bool
        Whether repeating an interrupted command continues its work.
    staged : bool
        Whether it runs stages; implies `resumable`.
    """
    text = COMMANDS[name].help
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(function=function, resumable=resumable or staged, staged=staged)
    parser.add_argument("--home", help="folder of store, database and reports (default: .labelscape)")
    parser.add_argument("--verbose", action="store_true", help="show the engine's log and tracebacks")
    if json:
        add_json(parser)
    return parser


def check_arguments(options: argparse.Namespace) -> None:
    """Refuse an argument that is empty or that no setting, name or path can hold.

    An empty argument is usually a shell variable that is not set; it must not select the default.
    """
    from storage.errors import ConfigError

    given = {name: value for name, value in vars(options).items() if name != "arguments"}
    for name, value in given.items():
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str):
                continue
            problem = find_text_problem(text)
            if not problem and not text.strip():
                problem = "is empty; give a value, or leave it out"
            if problem:
                raise ConfigError(f"{_written(name, options)} {shorten_middle(text)!r} {problem}.")


def _written(name: str, options: argparse.Namespace) -> str:
    """An argument as it stands on the command line, for messages."""
    option = f"--{_NAMES.get(name, name.replace('_', '-'))}"
    return option if any(one.startswith(option) for one in options.arguments) else f"argument {name}"


def check_environment() -> None:
    """Refuse a number of threads that libraries would refuse in the middle of a run, or ignore."""
    from storage.errors import ConfigError

    for name in _THREADS:
        value = os.environ.get(name)
        if value and not _THREAD_COUNTS.fullmatch(value):
            raise ConfigError(
                f"{name}={shorten_middle(value)!r}: give a number of threads from 1, or unset it."
            )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_configuration(parser: argparse.ArgumentParser, methods: bool = True) -> None:
    """Add the arguments that `read_config` reads."""
    parser.add_argument("source", nargs="?", metavar="CONFIG|SOURCE", help=_SOURCE_HELP)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting; may be repeated. Put passwords into a file: other users see arguments",
    )
    if methods:
        parser.add_argument("--methods", help="comma-separated, see `labelscape methods`")


def add_paranoid(parser: argparse.ArgumentParser) -> None:
    """Add `--paranoid`."""
    parser.add_argument(
        "--paranoid",
        action="store_true",
        help="read every file again, even if its size and times are unchanged",
    )


def add_tracker(parser: argparse.ArgumentParser) -> None:
    """Add the argument that `open_tracker` reads."""
    parser.add_argument("--uri", help=_URI_HELP)


def read_config(options: argparse.Namespace) -> RunConfig:
    """The configuration of a command: a TOML file or a source, then `--set`, then named options."""
    from flows.config import load_config

    file, source = _file_or_source(options.source)
    return load_config(
        file,
        options.set,
        home=options.home,
        source={"path": source, "paranoid": True if getattr(options, "paranoid", False) else None},
        embedding={"methods": getattr(options, "methods", None)},
        auto={name: getattr(options, name, None) for name in ("budget", "candidates", "closed")},
    )


def read_default_config(options: argparse.Namespace) -> RunConfig:
    """The configuration of a command without that argument: labelscape.toml in this folder, if it exists."""
    from flows.config import load_default_config

    return load_default_config(options.home)


def open_tracker(options: argparse.Namespace) -> Tracker:
    """The tracker at `--uri`, else that of the configuration in this folder."""
    from flows.config import find_home
    from flows.prefect_settings import prepare_libraries
    from storage.paths import check_address
    from tasks.stages.tracking import make_tracker

    config = read_default_config(options)
    prepare_libraries()
    uri = options.uri or config.tracking.uri
    if uri:
        check_address(uri, "--uri" if options.uri else "tracking.uri")
    return make_tracker(uri, find_home(config))


def _file_or_source(given: str | None) -> tuple[Path | None, str | None]:
    from flows.config import DEFAULT_FILE, place_from

    if given is None:
        return (DEFAULT_FILE, None) if DEFAULT_FILE.is_file() else (None, None)
    if Path(given).suffix.lower() == ".toml":
        return Path(given), None
    return None, place_from(Path(), given)
