"""The `labelscape` command: what can be asked for, and how errors reach a person.

Nothing heavy is imported here, so that `--help` answers at once.
"""

import argparse
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence

_SOURCE_HELP = (
    "a TOML configuration, a folder of images, a table, an ARFF file, or a built-in set"
    " (default: labelscape.toml here, else the demo)"
)

# Command: (module, function, one line of help)
_COMMANDS = {
    "run": ("run", "run", "run every stage, print the results, track them"),
    "auto": ("auto", "auto", "score a menu of candidates, keep the best as the collection's champion"),
    "status": ("status", "status", "say which stages are fresh and which would run, and why"),
    "stage": ("run", "stage", "re-run one stage, and those below it whose input changed"),
    "compare": ("compare", "compare", "show the tracked runs of an experiment side by side"),
    "annotate": ("annotate", "annotate", "label new items with the champion, or a tracked run's model"),
    "reproduce": (
        "reproduce",
        "reproduce",
        "run the papers' tables and figures, beside what the papers print",
    ),
    "methods": ("listing", "methods", "list the methods that can be named"),
    "lineage": ("lineage", "lineage", "trace a result back to the bytes it came from"),
    "store": ("store", "store", "look after the store: list, verify, measure, tidy up, pin runs"),
    "sync": ("sync", "sync", "track the runs that could not be tracked when they ran"),
    "config": ("listing", "config", "show the configuration with every default"),
    "up": ("operate", "up", "start a local Prefect server and the MLflow UI on 127.0.0.1"),
    "down": ("operate", "down", "stop them"),
    "serve": ("operate", "serve", "run on a schedule from this process"),
    "deploy": ("operate", "deploy", "register a schedule on a work pool for a worker"),
}


# What a killed one has done is kept; the same words again go on.
_STAGED = ("run", "auto", "stage", "reproduce")
_RESUMABLE = (*_STAGED, "annotate", "sync", "store verify", "store gc")
_CONFIGURED = ("run", "auto", "status", "stage", "config", "serve", "deploy")
_SCRIPTABLE = (
    *("run", "auto", "status", "stage", "compare", "annotate"),
    *("reproduce", "methods", "lineage", "sync", "config"),
)


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, or that of one command: of twenty parsers nineteen are not asked."""
    parser = argparse.ArgumentParser(
        prog="labelscape",
        description="Embed, annotate and compare: a few items carry labels, the rest do not.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in [chosen] if chosen in _COMMANDS else _COMMANDS:
        text = _COMMANDS[name][2]
        _add_options(name, commands.add_parser(name, help=text, description=text))
    return parser


def _add_options(name: str, command: argparse.ArgumentParser) -> None:
    command.add_argument("--home", help="folder of store, database and reports (default: .labelscape)")
    command.add_argument("--verbose", action="store_true", help="show the engine's own log and tracebacks")
    if name == "stage":
        command.add_argument("name", metavar="NAME", help="for instance features, affinity, embedding")
    if name in _CONFIGURED:
        _add_configuration(command)
    if name in _CONFIGURED and name != "auto":
        command.add_argument("--methods", help="comma-separated, see `labelscape methods`")
    if name in _SCRIPTABLE:
        command.add_argument("--json", action="store_true", help="print JSON for a script")
    if name in ("run", "auto", "status", "stage"):
        command.add_argument(
            "--paranoid", action="store_true", help="read every file again, whatever its size and times say"
        )
    if name in ("run", "stage"):
        command.add_argument(
            "--done",
            action="append",
            default=[],
            metavar="STAGE",
            help="was computed again already, as the command says that resumes one; may be repeated",
        )
    if name in _OPTIONS:
        _OPTIONS[name](command)


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", metavar="CONFIG|SOURCE", help=_SOURCE_HELP)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting; may be repeated",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--refresh",
        action="append",
        default=[],
        metavar="STAGE",
        help="compute this stage again; those below it only where its result changed; may be repeated",
    )
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument(
        "--from",
        dest="since",
        metavar="STAGE",
        help="as --refresh, and take the stages before it as the last run left them",
    )
    parser.add_argument(
        "--as", dest="as_run", metavar="RUN", help="with the configuration of an earlier run, and compare"
    )


def _add_stage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="compute it again even if it is fresh")


def _add_lineage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="RUN|REF",
        help="id of a run, key or digest of an artifact (default: newest run)",
    )


def _add_sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uri", help="MLflow URI (default: that of each run)")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show", action="store_true", help="print the resolved configuration (the default)")


def _add_auto(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", help="time for scoring candidates, as 90s, 10m, 1h30m (default: 10m)")
    parser.add_argument("--candidates", metavar="NAMES", help="comma-separated (default: the whole menu)")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="default: the experiment of the newest run")
    parser.add_argument("--uri", help="MLflow URI (default: the database in the home folder)")
    parser.add_argument("--sort-by", default="macro_f1", metavar="METRIC")
    parser.add_argument("--all", action="store_true", help="every run, not only the newest of each method")


def _add_annotate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="new images, or a table with the columns the model was trained on")
    parser.add_argument("--run", help="run id (default: the champion of `auto`, else the newest tracked run)")
    parser.add_argument("--method", help="method of that run (default: the one with the best score)")
    parser.add_argument("--experiment", help="whose champion or run (default: the experiment used last)")
    parser.add_argument("--uri", help="MLflow URI (default: the database in the home folder)")
    parser.add_argument("--out", help="file name without ending (default: annotations in this folder)")


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="an experiment, `list`, `all`, or `fetch` to get public data sets"
    )
    parser.add_argument("--quick", action="store_true", help="fewer trials: minutes in place of hours")
    parser.add_argument("--sets", metavar="A,B", help="only these of its data sets")
    parser.add_argument("--data", metavar="DIR", help="folder of the data sets (default: LABELSCAPE_DATA)")


def _add_store(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    texts = {
        "ls": "every artifact, or with --runs every run",
        "du": "room taken, by stage",
        "verify": "read and check every artifact; damaged ones are set aside",
        "gc": "remove what no kept run needs",
        "pin": "keep a run whatever its age",
        "unpin": "no longer",
    }
    made = {name: actions.add_parser(name, help=text, description=text) for name, text in texts.items()}
    for action in made.values():
        action.add_argument("--json", action="store_true", help="print JSON for a script")
        action.add_argument("--home", default=argparse.SUPPRESS, help="folder whose store is meant")
    made["ls"].add_argument("--runs", action="store_true", help="the runs instead")
    made["gc"].add_argument("--dry-run", action="store_true", help="only say what would go")
    made["gc"].add_argument(
        "--keep", type=int, default=5, metavar="N", help="newest runs of each experiment to keep (default: 5)"
    )
    made["gc"].add_argument(
        "--forget-damaged", action="store_true", help="give up runs whose records were damaged, pinned or not"
    )
    made["gc"].add_argument(
        "--forget-tracker",
        action="append",
        default=[],
        metavar="URI",
        help="an MLflow that is gone for good, with its registered models; may be repeated",
    )
    for name in ("pin", "unpin"):
        made[name].add_argument("run", metavar="RUN", help="id of a run, or its beginning")


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prefect-port", type=int, help="default: 4200 if it is free, else any")
    parser.add_argument("--mlflow-port", type=int, help="default: 5000 if it is free, else any")


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cron", default="0 3 * * *", help="when to run (default: %(default)s)")
    parser.add_argument("--name", default="train", help="name of the deployment")


def _add_deploy(parser: argparse.ArgumentParser) -> None:
    _add_schedule(parser)
    parser.add_argument("--pool", default="labelscape", help="process work pool, made if missing")


_OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "run": _add_run,
    "auto": _add_auto,
    "stage": _add_stage,
    "compare": _add_compare,
    "annotate": _add_annotate,
    "reproduce": _add_reproduce,
    "lineage": _add_lineage,
    "store": _add_store,
    "sync": _add_sync,
    "config": _add_config,
    "up": _add_up,
    "serve": _add_schedule,
    "deploy": _add_deploy,
}


def entry() -> int:
    """`main` as a process of its own: where Prefect was given up, its threads are not waited for."""
    code = main()
    engine = sys.modules.get("flows.prefect_engine")
    return engine.leave(code) if engine else code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 a user's error, 1 ours, 130 interrupted, 143 terminated."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser(arguments[0] if arguments else None)
    options = parser.parse_args(arguments)
    options.arguments = arguments
    if options.version:
        return _version()
    if options.command is None:
        parser.print_help()
        return 0
    return _dispatch(options)


def _dispatch(options: argparse.Namespace) -> int:
    from flows.stages import RENEWED
    from flows.terminal import tell

    module, function, _ = _COMMANDS[options.command]
    kept = "; finished stages are kept." if options.command in _STAGED else "."
    resumable = f"{options.command} {getattr(options, 'action', '')}".strip() in _RESUMABLE
    if resumable:
        signal.signal(signal.SIGTERM, _terminate)
    renewed: list[str] = []
    RENEWED.set(renewed)
    try:
        return int(getattr(importlib.import_module(f"flows.commands.{module}"), function)(options))
    except KeyboardInterrupt as stop:
        tell(f"interrupted{kept}")
        code = 143 if isinstance(stop, _Terminated) else 130
    except BrokenPipeError:
        # The reader of a pipe went away (for instance `head`): nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        code = _explain(error, options)
        resumable = resumable and _helps_again(error, options.command)
    except BaseException as stop:
        if not _is_termination(stop):
            raise
        tell(f"terminated{kept}")
        code = 143
    if resumable:
        done = [part for label in renewed for part in ("--done", label)]
        tell(f"resume with: {shlex.join(['labelscape', *options.arguments, *done])}")
    return code


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as systemd, cron and containers send it: the same tidy end as Ctrl-C."""


def _terminate(number: int, frame: object) -> None:
    raise _Terminated


def _is_termination(stop: BaseException) -> bool:
    """Whether it is Prefect's word for SIGTERM, which it takes over in a flow; a second one gets here."""
    known = sys.modules.get("prefect.exceptions")
    return known is not None and isinstance(stop, known.TerminationSignal)


def _helps_again(error: Exception, command: str) -> bool:
    """Whether the same words go on after an error; no where the command itself has to change.

    Stages go on once their source or store is mended. What another command refuses asks for something else
    first, unless a store did not answer or the fault is ours.
    """
    from embedding_core.errors import InvalidInput
    from storage.errors import ConfigError, LabelscapeError, StoreUnreachable

    if isinstance(error, (ConfigError, InvalidInput)):
        return False
    return command in _STAGED or not isinstance(error, LabelscapeError) or isinstance(error, StoreUnreachable)


def _explain(error: Exception, options: argparse.Namespace) -> int:
    """Say what went wrong; 2 where the user can mend it, else 1 with a traceback in a file."""
    from embedding_core.errors import InvalidInput
    from flows.terminal import tell
    from storage.errors import LabelscapeError

    if options.verbose:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, (LabelscapeError, InvalidInput)):
        tell(f"labelscape: {error}")
        return 2
    from flows.crash import find_crash_home, write_crash

    file = write_crash(error, find_crash_home(options))
    tell(f"labelscape: unexpected {type(error).__name__}: {error}\nThe details are in {file}.")
    return 1


def _version() -> int:
    from flows import __version__
    from flows.terminal import show

    show(f"labelscape {__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(entry())
