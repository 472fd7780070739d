"""The list of all reports of a home folder (`reports/index.html`), and the link to the latest one."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage.artifacts.disk import read_if_there, store_errors, temporary_path, write_atomically
from storage.artifacts.locks import hold_lock
from storage.artifacts.run_log import LoggedRun
from tasks.report.page import PAGE, page_environment
from tasks.report.tables import Table, format_time

LATEST = "latest"
_ABOUT = "run.json"
_FIELDS = ("name", "source", "time", "id")
# Only of runs with scores.
_BEST = "best"
# At the end of the title of a metric.
_ARROWS = ("↑", "↓")


def about_run(run: LoggedRun, tables: Mapping[str, Table]) -> dict[str, str]:
    """What the list of reports shows of a run; the first table with scores has the best result first."""
    about = {"name": run.name, "source": run.source, "time": format_time(run.repeated), "id": run.id}
    scored = (one for one in tables.values() if one.rows and one.header[1].endswith(_ARROWS))
    table = next(scored, None)
    if table is None:
        return about
    title, score = table.rows[0][:2]
    return {**about, _BEST: f"{title}: {table.header[1].rstrip(' ↑↓')} {score}"}


def list_report(folder: Path, about: Mapping[str, str]) -> None:
    """Add a report to the list.

    Parameters
    ----------
    folder : Path
        The folder of the report, beside those of the others.
    about : mapping of str to str
        Of its run: `name`, `source`, `time`, `id`, and `best` if it has scores.
    """
    reports = folder.parent
    with store_errors(reports), hold_lock(reports / f".{PAGE}.lock"):
        write_atomically(folder / _ABOUT, json.dumps(dict(about), ensure_ascii=False).encode())
        _write_list(reports)
        _link(reports / LATEST, folder.name)


def _write_list(reports: Path) -> None:
    page = page_environment().get_template("reports.html.j2").render(reports=find_reports(reports))
    write_atomically(reports / PAGE, page.encode())


def remove_reports(reports: Path, folders: Sequence[str]) -> None:
    """Remove the reports in some folders, also from the list."""
    with store_errors(reports), hold_lock(reports / f".{PAGE}.lock"):
        for name in folders:
            shutil.rmtree(reports / name)
        _write_list(reports)


def find_reports(reports: Path) -> list[dict[str, Any]]:
    """The runs of all reports, newest first."""
    found = []
    for folder in reports.iterdir():
        if folder.is_symlink() or not folder.is_dir() or not (raw := read_if_there(folder / _ABOUT)):
            continue
        try:
            known = json.loads(raw)
            own = {name: str(known[name]) for name in _FIELDS}
            found.append({"folder": folder.name, _BEST: str(known.get(_BEST, "")), **own})
        except (ValueError, KeyError, TypeError):  # damaged; its run writes it again
            continue
    return sorted(found, key=lambda one: one["time"], reverse=True)


def _link(place: Path, target: str) -> None:
    """Point a symbolic link to a folder beside it, atomically; what is no link stays."""
    if place.exists() and not place.is_symlink():
        return
    made = temporary_path(place)
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    made.replace(place)
