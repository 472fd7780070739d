"""Homes that are made once per section and copied by its cases."""

import contextlib
import io
import shutil
import sqlite3
from pathlib import Path

from tests.hostile.case import Place
from tests.hostile.samples import pictures, write_table

QUICK = ("--set", "evaluation.folds=2", "--set", "evaluation.n_neighbors=[1]", "--set", "report.thumbnails=2")
_TABLES = {"experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location"}


def command(*arguments: object) -> tuple[int, str]:
    """Exit code and output of a command in this process."""
    from flows.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([str(argument) for argument in arguments])
    return code, said.getvalue()


def train(shared: Path, *more: str, source: Path) -> None:
    """Run all stages into the home of the template."""
    code, said = command("run", source, "--home", shared / "home", "--set", "executor=serial", *QUICK, *more)
    assert code == 0, said


def model_template(shared: Path) -> Path:
    """The folder with the trained model, which all sections share."""
    return shared.parent / "trained"


def train_model(shared: Path) -> None:
    """A home with a tracked model of pictures, once for all sections."""
    folder = model_template(shared)
    if not folder.exists():
        chosen = ("--set", "tracking.experiment=pictures", "--methods", "mlda")
        train(folder, *chosen, source=pictures(folder / "source", count=12))


def train_table(shared: Path) -> None:
    """A home with the artifacts of one untracked run of a table."""
    train(shared, "--set", "tracking.enabled=false", source=write_table(shared / "source"))


def copy_home(place: Place) -> None:
    """Copy the home of the template, and its source."""
    shutil.copytree(place.shared / "home", place.home)
    shutil.copytree(place.shared / "source", place.source)


def copy_model_home(place: Place) -> None:
    """Copy the home; the database contains absolute paths, which then name the copy."""
    trained = model_template(place.shared) / "home"
    shutil.copytree(trained, place.home)
    with contextlib.closing(sqlite3.connect(place.home / "mlflow.db")) as database, database:
        for table, column in _TABLES.items():
            database.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?)",
                (str(trained), str(place.home)),
            )
