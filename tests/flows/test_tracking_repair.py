"""Runs and `sync` with a tracking database that is damaged, newer, or at an address that cannot be used."""

import contextlib
import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from storage.tracking.migrations import known_revisions
from tests.conftest import Command

QUICK = ("--set", "evaluation.folds=2", "--set", "evaluation.baselines=[]")


@pytest.mark.slow
@pytest.mark.parametrize("uri", ["ftp://host/runs", "http://[::1", "postgresql+nothing://host/runs"])
@pytest.mark.parametrize(
    "given",
    [("run", "wine"), ("auto", "wine"), ("reproduce", "dle-table3", "--quick"), ("sync",), ("compare",)],
)
def test_an_address_that_cannot_be_used_is_refused_first(
    command: Command, tmp_path: Path, uri: str, given: tuple[str, ...]
) -> None:
    (tmp_path / "labelscape.toml").write_text(f'[tracking]\nuri = "{uri}"\n')
    if given[0] in ("run", "auto"):  # these take a configuration or a source
        given = (*given, "--set", f"tracking.uri={uri}")
    answer = command(*given, "--home", tmp_path / "home")
    assert answer.code == 2
    assert re.search("tracking address|tracking.uri is not a usable address", answer.err)
    assert re.search("Give .*sqlite:///", answer.err)
    assert not list((tmp_path / "home").rglob("*.parquet"))


@pytest.mark.slow
def test_runs_survive_their_tracking_database(
    command: Command, tmp_path: Path, without_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("LABELSCAPE_HOME", str(home))
    first = summary(command("run", "wine", "--json", *QUICK))
    assert first["tracking"]["run_id"]
    assert first["warnings"] == []

    # A database of a newer MLflow is left alone; the run is recorded once it can be used again.
    set_schema(home, "ffffffffffff")
    newer = command("run", "wine", *QUICK, "--set", "evaluation.folds=3")
    assert newer.code == 0, newer.err
    last = newer.out.splitlines()[-1]
    assert last.startswith("NOT TRACKED: ")
    assert "newer MLflow" in last
    assert last.endswith("track them later: `labelscape sync`")
    failed = command("sync")
    assert failed.code == 2
    assert "newer MLflow" in failed.out
    assert "1 of 1 records are still missing" in failed.err
    set_schema(home, known_revisions()[0])
    assert command("sync").code == 0
    assert "Nothing to do" in command("sync").out

    # A damaged one is set aside, and both runs are recorded again.
    database = home / "mlflow.db"
    os.truncate(database, database.stat().st_size // 2)
    assert command("compare").code == 2
    again = command("run", "wine", *QUICK)
    assert again.code == 0, again.err
    [kept] = home.glob("mlflow.db.broken-*")
    assert any(line.startswith("warning ") and kept.name in line for line in again.out.splitlines()[-3:])
    assert "NOT TRACKED" not in again.out
    synced = json.loads(command("sync", "--json").out)
    assert [one["problem"] for one in synced["runs"]] == [None]
    assert "Nothing to do" in command("sync").out
    assert command("compare").code == 0
    quiet = summary(command("run", "wine", "--json", *QUICK))
    assert quiet["warnings"] == [], "reported once"


def summary(answer: Any) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    return dict(json.loads(answer.out))


def set_schema(home: Path, revision: str) -> None:
    with contextlib.closing(sqlite3.connect(home / "mlflow.db")) as opened:
        opened.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        opened.commit()
