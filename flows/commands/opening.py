"""`open`: show the report of a run, or its pages in MLflow and Prefect."""

import argparse
import json
import webbrowser
from pathlib import Path

from flows.addresses import experiment_address, mlflow_pages, run_address, with_login
from flows.commands.options import Subparsers, add_command, read_default_config
from flows.config import RunConfig, find_home
from flows.rerun import command_again, command_here
from flows.services import running
from flows.stores import open_store
from flows.terminal import show
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, ServiceError
from tasks.stages.report import report_of, report_page
from tasks.stages.tracking import load_tracked

_PAGES = ("report", "mlflow", "runs", "prefect")
# Kinds of runs that are recorded in MLflow.
_TRACKED = ("run", "auto")


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "open", open_page, json=True)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RUN|report|mlflow|runs|prefect",
        help="id of a run (default: the newest), and which page (default: report); runs: all runs of its "
        "collection in MLflow",
    )
    parser.add_argument("--print", action="store_true", help="print the address, open no browser")


def open_page(options: argparse.Namespace) -> int:
    """Open a page of a run in the browser and print its address."""
    config = read_default_config(options)
    name, page = _read_words(options.words)
    run = _find_run(RunLog(open_store(config)), name, page)
    address = _find_address(page, run, config)
    login = with_login(address, find_home(config))
    if options.json:
        show(json.dumps({"run": run.id, "page": page, "address": address}, indent=2))
        return 0
    opened = not options.print and _open_browser(login)
    # The address with the token is needed only by a browser that is not logged in.
    show(address if opened else login)
    return 0


def _read_words(words: list[str]) -> tuple[str | None, str]:
    """The run and the page that were named, in any order."""
    pages = [word for word in words if word in _PAGES]
    runs = [word for word in words if word not in _PAGES]
    if len(pages) > 1 or len(runs) > 1:
        raise ConfigError(f"give one run and one of {', '.join(_PAGES)}, not {' '.join(words)!r}.")
    return (runs[0] if runs else None), (pages[0] if pages else _PAGES[0])


def _find_run(log: RunLog, name: str | None, page: str) -> LoggedRun:
    """The named run, or the newest of a kind that has such a page."""
    if name is not None:
        return log.find(name)
    for run in log.entries():
        if report_of(run) if page == "report" else page == "prefect" or run.kind in _TRACKED:
            return run
    raise ConfigError("there is no such run yet; start with `labelscape run`.")


def _find_address(page: str, run: LoggedRun, config: RunConfig) -> str:
    home, store = find_home(config), open_store(config)
    if page in ("mlflow", "runs"):
        return _mlflow_address(page, run, store, home, config)
    if page == "prefect":
        return _prefect_address(run, home, config)
    made = report_of(run)
    if made is None:
        raise ConfigError(f"run {run.id} has no report; runs of `labelscape run` and `auto` have one.")
    file = report_page(made, home)
    if not file.is_file():
        again = command_again(run, config)
        raise ConfigError(f"the report of run {run.id} is not at {file}; write it again with `{again}`.")
    return file.as_uri()


def _mlflow_address(page: str, run: LoggedRun, store: ArtifactStore, home: Path, config: RunConfig) -> str:
    ref = next((ref for ref in run.stages.values() if ref.stage == "tracking"), None)
    if ref is None:
        raise ConfigError(f"run {run.id} is not tracked; try `{command_here(config, 'sync')}`.")
    tracked = load_tracked(store, ref)
    pages = mlflow_pages(tracked.uri, home)
    if pages is None:
        raise ServiceError(f"no MLflow server is running; start it with `{command_here(config, 'up')}`.")
    if page == "runs":
        return experiment_address(tracked.experiment_id, pages)
    return run_address(tracked, pages)


def _prefect_address(run: LoggedRun, home: Path, config: RunConfig) -> str:
    found = running(home)
    if found is None:
        raise ServiceError(f"no Prefect server is running; start it with `{command_here(config, 'up')}`.")
    if run.flow_run is None:
        raise ConfigError(f"run {run.id} was not recorded by Prefect; try `{command_here(config, 'sync')}`.")
    return f"{found.prefect_ui}/runs/flow-run/{run.flow_run}"


def _open_browser(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False
