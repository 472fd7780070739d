"""`run --from`: artifacts of the last run are reused if intact and consistent, else computed or refused."""

import json
from pathlib import Path

import pytest

from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from tests.conftest import UNTRACKED, Answer, Command

pytestmark = pytest.mark.usefixtures("without_engine")
UNTIL = ("--until", "correlation")


def give(command: Command, folder: Path, *arguments: str) -> Answer:
    return command("run", folder, *UNTRACKED, "--set", "evaluation.folds=2", *arguments, "--json")


def states(done: Answer) -> dict[str, str]:
    assert done.code == 0, done.err
    return {one["stage"]: one["state"] for one in json.loads(done.out)["stages"]}


def flip(home: Path, stage: str, ending: str = "parquet") -> Path:
    """Change one bit of an artifact of a stage."""
    path = next((home / "store" / stage).rglob(f"*.{ending}"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def relabel(folder: Path) -> None:
    file = folder / "labels.csv"
    file.write_text(file.read_text(encoding="utf-8").replace("p04.png,", "p04.png,red"), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "ending"), [("ingest", "parquet"), ("features", "json"), ("features_part", "parquet")]
)
def test_a_damaged_artifact_of_the_last_run_is_repaired_by_the_same_command(
    command: Command, picture_folder: Path, tmp_path: Path, stage: str, ending: str
) -> None:
    first = json.loads(give(command, picture_folder, *UNTIL).out)
    damaged = flip(tmp_path / ".labelscape", stage, ending)
    again = give(command, picture_folder, "--from", "affinity", *UNTIL)
    assert states(again)["affinity"] == "computed"
    assert json.loads(again.out)["run"] == first["run"], "the same results"
    assert json.loads(again.out)["damaged"]
    assert damaged.exists(), "recomputed"
    assert states(give(command, picture_folder, "--from", "affinity", *UNTIL))["features"] == "fresh"


@pytest.mark.slow
def test_artifacts_made_with_other_settings_are_refused(command: Command, picture_folder: Path) -> None:
    give(command, picture_folder, *UNTIL, "--set", "affinity.n_neighbors=3")
    refused = give(command, picture_folder, "--from", "correlation", *UNTIL)
    assert refused.code == 2
    assert "affinity of the last run does not fit: parameter affinity.n_neighbors 3 → 10" in refused.err
    assert refused.err.endswith("use --from affinity.\n"), "and no command to resume with"
    done = give(command, picture_folder, "--from", "affinity", *UNTIL)
    assert states(done)["affinity"] == "computed"
    store = ArtifactStore.local(Path(".labelscape") / "store")
    run = RunLog(store).find(json.loads(done.out)["run"])
    made = store.details(run.stages["affinity"])["recipe"]["params"]
    assert made["n_neighbors"] == run.config["affinity"]["n_neighbors"] == 10


def test_artifacts_made_by_other_code_are_refused(
    command: Command, picture_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(command, picture_folder, *UNTIL)
    monkeypatch.setattr("tasks.stage.module_fingerprint", lambda module: "e" * 32)
    refused = give(command, picture_folder, "--from", "correlation", *UNTIL)
    assert refused.code == 2
    assert "ingest of the last run does not fit: code of tasks/stages/ingest.py" in refused.err


def write_table(path: Path) -> Path:
    """A table with two columns that can both be the classes."""
    rows = [f"{n},{7 * n % 5},{'ab'[n % 2]},{'xyz'[n % 3]}" for n in range(24)]
    path.write_text("\n".join(["f0,f1,genre,mood", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_labels_of_another_column_are_not_mixed(command: Command, tmp_path: Path) -> None:
    table = write_table(tmp_path / "things.csv")
    give(command, table, *UNTIL, "--set", "source.labels=genre")
    other = ("--set", "source.labels=mood")
    refused = give(command, table, *other, "--from", "affinity", *UNTIL)
    assert refused.code == 2
    assert refused.err.endswith(
        "ingest of the last run does not fit: parameter source.labels genre → mood; use --from ingest.\n"
    )
    assert states(give(command, table, *other, "--from", "ingest", *UNTIL))["ingest"] == "computed"
    assert states(give(command, table, *other, "--from", "affinity", *UNTIL))["ingest"] == "fresh"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["elsewhere/labels.csv", "others.csv"])
def test_labels_of_another_file_are_not_mixed(command: Command, picture_folder: Path, where: str) -> None:
    give(command, picture_folder, *UNTIL)
    other = picture_folder.parent / where
    other.parent.mkdir(exist_ok=True)
    text = (picture_folder / "labels.csv").read_text(encoding="utf-8")
    other.write_text(text.replace("red", "sky"), encoding="utf-8")
    refused = give(
        command, picture_folder, "--set", f"source.labels={other}", "--from", "correlation", *UNTIL
    )
    assert refused.code == 2
    assert f"ingest of the last run does not fit: parameter source.labels None → {other};" in refused.err


@pytest.mark.slow
def test_other_edges_are_not_mixed(command: Command, picture_folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("i,j,w\n0,1,1\n", encoding="utf-8")
    second.write_text("i,j,w\n0,2,1\n", encoding="utf-8")
    give(command, picture_folder, *UNTIL, "--set", f"source.edges={first}")
    other = ("--set", f"source.edges={second}")
    give(command, picture_folder, *other, "--until", "ingest")  # the graph is still that of the first run
    refused = give(command, picture_folder, *other, "--from", "correlation", *UNTIL)
    assert refused.code == 2
    assert f"parameter source.edges {first} → {second}; use --from affinity.\n" in refused.err
    second.write_bytes(first.read_bytes())
    again = give(command, picture_folder, *other, "--from", "correlation", *UNTIL)
    assert states(again)["affinity"] == "fresh", "the same bytes in another place"


def test_the_same_files_may_change_and_have_another_spelling(
    command: Command, picture_folder: Path, tmp_path: Path
) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("i,j,w\n0,1,1\n", encoding="utf-8")
    named = ("--set", "source.labels=labels.csv", "--set", "source.edges=edges.csv")
    give(command, picture_folder, *UNTIL, *named)
    relabel(picture_folder)
    edges.write_text("i,j,w\n0,1,9\n", encoding="utf-8")
    in_full = ("--set", f"source.labels={picture_folder / 'labels.csv'}", "--set", f"source.edges={edges}")
    again = states(give(command, picture_folder, "--from", "correlation", *UNTIL, *in_full))
    assert (again["ingest"], again["affinity"]) == ("fresh", "fresh"), "as in the last run"


@pytest.mark.slow
def test_results_of_other_labels_are_not_mixed(command: Command, picture_folder: Path) -> None:
    give(command, picture_folder, *UNTIL)
    relabel(picture_folder)
    give(command, picture_folder, "--until", "ingest")
    refused = give(command, picture_folder, "--from", "embedding", "--until", "embedding")
    assert refused.code == 2
    assert "correlation of the last run was made from another ingest; use --from correlation." in refused.err
    assert states(give(command, picture_folder, "--from", "correlation", *UNTIL))["correlation"] == "computed"


@pytest.mark.slow
def test_results_of_other_items_are_not_mixed(command: Command, picture_folder: Path) -> None:
    give(command, picture_folder, *UNTIL)
    (picture_folder / "p39.png").unlink()
    give(command, picture_folder, "--until", "ingest")
    refused = give(command, picture_folder, "--from", "correlation", *UNTIL)
    assert refused.code == 2
    assert "features of the last run was made from another ingest; use --from features." in refused.err


@pytest.mark.slow
def test_a_missing_artifact_of_the_last_run_needs_an_unchanged_source(
    command: Command, picture_folder: Path, tmp_path: Path
) -> None:
    give(command, picture_folder, *UNTIL)
    (picture_folder / "p39.png").unlink()
    flip(tmp_path / ".labelscape", "features_part")
    refused = give(command, picture_folder, "--from", "correlation", *UNTIL)
    assert refused.code == 2
    assert "features of the last run is gone or damaged" in refused.err
    assert "use --from ingest." in refused.err
    assert states(give(command, picture_folder, "--from", "ingest", *UNTIL))["features"] == "computed"


@pytest.mark.slow
def test_a_report_does_not_mix_new_labels_with_old_scores(command: Command, picture_folder: Path) -> None:
    give(command, picture_folder)
    relabel(picture_folder)
    give(command, picture_folder, "--until", "features")
    refused = give(command, picture_folder, "--from", "report")
    assert refused.code == 2
    assert "correlation of the last run was made from another ingest; use --from correlation." in refused.err
