"""The SQLite database of MLflow: kept whole by `storage.sqlite`, and read without MLflow."""

from collections.abc import Collection
from pathlib import Path

from storage.errors import TrackerDamaged, TrackingError
from storage.sqlite import migrated, reading
from storage.sqlite.migrated import Warn
from storage.sqlite.program import Program, Schema
from storage.tracking import migrations
from storage.tracking.addresses import DATABASE
from storage.tracking.explain import ELSEWHERE, explain_error


class MlflowDatabase(Program):
    """MLflow, as the program that a database belongs to."""

    title = "MLflow"
    elsewhere = ELSEWHERE

    def version(self) -> str:
        """Return the version of MLflow."""
        return migrations.mlflow_version()

    def revisions(self) -> tuple[str, ...]:
        """Return the versions of MLflow's tables, the latest first."""
        return migrations.known_revisions()

    def tables(self) -> frozenset[str]:
        """Return the names of MLflow's tables."""
        return migrations.known_tables()

    def migrate(self, file: Path, upgrade: bool) -> None:
        """Create MLflow's tables in a file, or upgrade them."""
        migrations.migrate(file, upgrade)

    def close_connections(self, file: Path) -> None:
        """Close MLflow's connections of this process to a file."""
        migrations.close_connections(file)

    def error(self, message: str) -> TrackingError:
        """Return the error for a database that cannot be used."""
        return TrackingError(message)

    def damage(self, file: Path, reason: str) -> TrackerDamaged:
        """Return the error for a damaged database."""
        return TrackerDamaged(str(file), reason)

    def explain(self, file: Path, error: Exception) -> TrackingError:
        """Explain an error of SQLite or of the system."""
        return explain_error(f"sqlite:///{file}", error)

    def is_named(self, file: Path) -> bool:
        """Return whether the file has the usual name; `tracking.uri` may name any file."""
        return file.name == DATABASE

    def check_owner(self, file: Path, schema: Schema) -> None:
        """Raise if the tables are those of another program."""
        ours = self.tables() | {"alembic_version"}
        foreign = sorted(
            name for name in schema.tables - ours if not name.startswith(("_alembic_tmp_", "sqlite_"))
        )
        is_mlflow = "experiments" in schema.tables if schema.revision else not foreign
        if not is_mlflow:
            raise TrackingError(
                f"{file} is a database of another program (table {(foreign or sorted(schema.tables))[0]}). "
                f"Move it away, or {ELSEWHERE}."
            )

    def loss(self, file: Path) -> str:
        """Return what a new database lacks, and how to record it again."""
        runs = reading.count_rows(file, "runs", self)
        if runs == 0:
            return "It contained no runs."
        count = "runs" if runs is None else f"{runs} run{'s' if runs != 1 else ''}"
        return (
            f"The new one lacks its {count} and registered models: `labelscape sync` records runs again, "
            "`labelscape auto` registers a model again."
        )


MLFLOW = MlflowDatabase()


def ensure_database(file: Path, warn: Warn | None = None) -> None:
    """Create MLflow's database if it is missing, or upgrade it; see `storage.sqlite.migrated`."""
    migrated.ensure_database(file, MLFLOW, warn)


def is_missing(file: Path) -> bool:
    """Return whether there is no database yet."""
    return reading.is_missing(file, MLFLOW)


def find_damage(file: Path) -> TrackerDamaged | None:
    """Read the whole database; return what is damaged, or None."""
    damage = reading.find_damage(file, MLFLOW)
    return damage if damage is None or isinstance(damage, TrackerDamaged) else None


def set_aside_if_damaged(file: Path) -> str | None:
    """Read the whole database after an error; set it aside if it is damaged, and return the message."""
    return migrated.set_aside_if_damaged(file, MLFLOW)


def lost_runs(file: Path, run_ids: Collection[str]) -> set[str]:
    """Return the runs that are not in a database, if an earlier one was set aside or it is damaged itself."""
    file = file.resolve()
    try:
        known = set() if is_missing(file) else all_runs(file)
    except TrackerDamaged:
        return set(run_ids)
    return set(run_ids) - known if migrated.was_set_aside(file) else set()


def all_runs(file: Path) -> set[str]:
    """Return the ids of all runs in a database, deleted ones included."""
    if "runs" not in reading.read_schema(file, MLFLOW).tables:
        return set()
    with reading.open_sqlite(file, MLFLOW) as database:
        return {str(run_id) for (run_id,) in database.execute("SELECT run_uuid FROM runs")}


def has_run(file: Path, run_id: str) -> bool:
    """Return whether a database contains a run that is not deleted."""
    # MLflow may not have created its tables yet.
    if is_missing(file) or "runs" not in reading.read_schema(file, MLFLOW).tables:
        return False
    query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
    with reading.open_sqlite(file, MLFLOW) as database:
        return database.execute(query, (run_id,)).fetchone() is not None
