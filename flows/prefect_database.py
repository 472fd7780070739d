"""Prefect's database in a home folder: created and upgraded aside, see `storage.sqlite.migrated`.

Prefect's server would migrate it in place; a kill meanwhile leaves a database that no server can use.
`python -m flows.prefect_database FILE` runs Prefect's migrations on a file of the current folder.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

from storage.artifacts.disk import make_folder, store_errors
from storage.errors import DatabaseDamaged, LabelscapeError, ServiceError
from storage.sqlite.causes import (
    DAMAGED,
    MigrationFailed,
    advice,
    error_kind,
    first_line,
    root_cause,
    sentence,
)
from storage.sqlite.migrated import Warn, ensure_database
from storage.sqlite.program import Program
from storage.sqlite.reading import count_rows

# A server must not migrate the database in place.
SERVER_VARIABLES = {"PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false"}
_VERSIONS = "server/database/_migrations/versions/sqlite"
_REVISION = re.compile(r"^(down_)?revision\b[^=\n]*=\s*[\"'](\w+)[\"']", re.MULTILINE)
# Tables that no flow run can do without.
_TABLES = frozenset(
    {"flow", "flow_run", "flow_run_state", "task_run", "task_run_state", "deployment", "work_pool", "log"}
    | {"events", "block_type", "block_schema", "block_document", "csrf_token", "variable"}
)


class PrefectDatabase(Program):
    """Prefect, as the program that a database belongs to."""

    title = "Prefect"
    elsewhere = "choose another folder with --home or LABELSCAPE_HOME"

    def version(self) -> str:
        """Return the version of Prefect."""
        return importlib.metadata.version("prefect")

    def revisions(self) -> tuple[str, ...]:
        """Return the versions of Prefect's tables, the latest first."""
        return known_revisions()

    def tables(self) -> frozenset[str]:
        """Return the tables that every flow run uses."""
        return _TABLES

    def migrate(self, file: Path, upgrade: bool) -> None:
        """Run Prefect's migrations in another process: Prefect has one database per process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        variables = {
            "PREFECT_HOME": str(file.parent),
            # Relative to the folder, whose name may contain characters that mean something in an address.
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{file.name}",
            "PREFECT_LOGGING_LEVEL": "CRITICAL",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PYTHONSAFEPATH": "1",
        }
        with subprocess.Popen(
            [sys.executable, "-m", "flows.prefect_database", file.name],
            cwd=file.parent,
            env=kept | variables,
            stdin=subprocess.PIPE,  # it ends with this process, see _end_with_parent
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            said = process.stdout.read() if process.stdout else ""
        if process.returncode:
            raise _failure(said, process.returncode)

    def error(self, message: str) -> ServiceError:
        """Return the error for a database that cannot be used."""
        return ServiceError(message)

    def damage(self, file: Path, reason: str) -> DatabaseDamaged:
        """Return the error for a damaged database."""
        return DatabaseDamaged(str(file), reason)

    def explain(self, file: Path, error: Exception) -> LabelscapeError:
        """Explain an error of SQLite or of the system."""
        kind = error_kind(error)
        if kind == DAMAGED:
            return self.damage(file, first_line(root_cause(error)))
        what_to_do = advice(kind, self.elsewhere) or f"Move it away, or {self.elsewhere}."
        return ServiceError(f"Prefect's database {file}: {sentence(first_line(error))} {what_to_do}")

    def loss(self, file: Path) -> str:
        """Return what a new database lacks, and what is kept elsewhere."""
        runs = count_rows(file, "flow_run", self)
        if runs == 0:
            return "It contained no flow runs."
        count = "flow runs" if runs is None else f"{runs} flow run{'s' if runs != 1 else ''}"
        return (
            f"The new one lacks its {count} and deployments: results are in the store and in MLflow, and "
            "`labelscape deploy` registers a deployment again."
        )


PREFECT = PrefectDatabase()


def database_file(home: Path) -> Path:
    """Return Prefect's database of a home."""
    return home / "prefect" / "prefect.db"


def asynchronous(address: str) -> str:
    """The address of a PostgreSQL database with the driver that Prefect uses.

    >>> asynchronous("postgresql://me@host/prefect")
    'postgresql+asyncpg://me@host/prefect'
    """
    scheme, colon, rest = address.partition("://")
    return f"postgresql+asyncpg{colon}{rest}" if scheme.startswith("postgres") else address


def prepare_database(home: Path, warn: Warn | None = None) -> None:
    """Create or upgrade Prefect's database of a home before a server uses it.

    `warn` permits to set a damaged one aside, and receives what was lost.

    Raises
    ------
    ServiceError
        It belongs to a newer Prefect, is in use, or cannot be written.
    """
    with store_errors(home / "prefect"):
        make_folder(home / "prefect")
    ensure_database(database_file(home), PREFECT, warn)


@cache
def known_revisions() -> tuple[str, ...]:
    """Return the versions of Prefect's tables, the latest first; importing all migrations takes a second."""
    spec = importlib.util.find_spec("prefect")
    folder = Path(((spec and spec.submodule_search_locations) or [""])[0]) / _VERSIONS
    names: dict[bool, set[str]] = {False: set(), True: set()}
    for file in folder.glob("*.py"):
        for down, name in _REVISION.findall(file.read_text(encoding="utf-8")):
            names[bool(down)].add(name)
    latest = names[False] - names[True]
    if len(latest) != 1:
        raise ServiceError(
            f"Prefect {PREFECT.version()} has no migrations that labelscape can read in {folder}. Install a "
            "version that labelscape supports: pip install --upgrade labelscape prefect."
        )
    return (*latest, *sorted(names[False] - latest))


def _failure(said: str, code: int) -> MigrationFailed:
    """Return the error that the process of the migrations printed."""
    last = (said.strip().splitlines() or [f"its process ended with exit code {code}"])[-1]
    try:
        found = json.loads(last)
        return MigrationFailed(found["text"], found["kind"])
    except (ValueError, KeyError, TypeError):
        return MigrationFailed(last)


def _end_with_parent() -> None:
    """End this process when its parent has died: nobody would use the result."""
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin.read, whose lock would abort the interpreter at its end
    os._exit(1)


def main() -> int:
    """Run the migrations on the database that the environment names; print an error as JSON."""
    import asyncio

    os.umask(0o077)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from prefect.server.database.dependencies import provide_database_interface

    try:
        asyncio.run(provide_database_interface().create_db())
    except Exception as error:
        text = json.dumps({"text": first_line(error), "kind": error_kind(error)})
        sys.stdout.write(f"\n{text}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
