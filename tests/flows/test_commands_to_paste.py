"""Printed commands work when pasted: they find the same home and the same store."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from flows.config import find_home, load_config, load_default_config
from flows.rerun import command_here
from flows.stores import find_store_uri
from flows.summary import closing_lines
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from tests.conftest import UNTRACKED, Command

pytestmark = pytest.mark.usefixtures("without_engine")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LABELSCAPE_HOME", "LABELSCAPE_STORE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_home_is_named_if_it_is_not_the_default(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_here(load_config(None), "sync") == "labelscape sync"
    assert command_here(load_config(None, home="a b"), "sync") == f"labelscape sync --home '{here / 'a b'}'"
    (here / "other.toml").write_text('home = "there"\n')
    assert command_here(load_config(Path("other.toml")), "sync") == f"labelscape sync --home {here / 'there'}"
    (here / "labelscape.toml").write_text('home = "there"\n')
    assert command_here(load_config(Path("other.toml")), "sync") == "labelscape sync"
    (here / "labelscape.toml").write_text("home = 7\n")
    assert "--home" in command_here(load_config(Path("other.toml")), "sync"), (
        "named although the file is invalid"
    )
    (here / "labelscape.toml").unlink()
    monkeypatch.setenv("LABELSCAPE_HOME", "there")
    assert command_here(load_config(Path("other.toml")), "sync") == "labelscape sync"


def test_a_shared_store_is_named_if_it_is_not_the_default(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "other.toml").write_text('[store]\nuri = "file:///shared place"\n')
    config = load_config(Path("other.toml"))
    assert command_here(config, "sync") == "LABELSCAPE_STORE='file:///shared place' labelscape sync"
    monkeypatch.setenv("LABELSCAPE_STORE", "file:///shared place")
    assert command_here(config, "sync") == command_here(load_config(None), "sync") == "labelscape sync"


def paste(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str | None]:
    """The home and the store that a command finds when a shell runs it."""
    reported = 'labelscape() { printf \'%s\\n\' "$PWD" "$LABELSCAPE_STORE" "$@"; }'
    shell = subprocess.run(["sh", "-c", f"{reported}\n{text}"], capture_output=True, text=True, check=True)
    folder, uri, *words = shell.stdout.splitlines()
    home = words[words.index("--home") + 1] if "--home" in words else None
    with monkeypatch.context() as place:
        place.chdir(folder)
        place.setenv("LABELSCAPE_STORE", uri)
        config = load_default_config(home)
        return find_home(config), find_store_uri(config.store.uri)


@pytest.mark.parametrize("shared_by_all", [None, "file:///of all"])
@pytest.mark.parametrize("mine", [None, "file:///shared place", "file:///another"])
@pytest.mark.parametrize("home", ["my home", "my home/inner", ".labelscape"])
def test_a_pasted_command_finds_the_store_regardless_of_the_configuration_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, home: str, mine: str | None, shared_by_all: str | None
) -> None:
    if shared_by_all:
        monkeypatch.setenv("LABELSCAPE_STORE", shared_by_all)
    (here / home).mkdir(parents=True)
    (here / "my home").mkdir(exist_ok=True)
    (here / "labelscape.toml").write_text('[store]\nuri = "file:///another"\n')
    (here / "my home" / "labelscape.toml").write_text('[store]\nuri = "file:///a third"\n')
    config = load_config(None, [f"store.uri={mine}"] if mine else [], home=home)
    found = paste(command_here(config, "sync"), monkeypatch)
    assert found == (here / home, mine or shared_by_all)


def test_no_password_is_printed(here: Path) -> None:
    config = load_config(None, ["store.uri=s3://me:hush@bucket/x"])
    assert command_here(config, "sync") == "LABELSCAPE_STORE=s3://bucket/x labelscape sync"


def test_the_closing_lines_of_a_run_lead_to_its_home(here: Path) -> None:
    summary = {
        "run": "abc",
        "repeats": None,
        "stages": [],
        "report": None,
        "changes": None,
        "damaged": [],
        "skipped": [],
        "notes": [],
        "tracking": {"run_id": "f" * 32, "uri": "u", "problem": "No answer."},
        "prefect": {"problem": "No server."},
        "warnings": [],
    }
    config = load_config(None, home="h")
    text = "\n".join(closing_lines(config, summary))
    home = f"--home {here / 'h'}"
    for words in ("track them later: `labelscape sync", "Record it later: `labelscape sync"):
        assert f"{words} {home}" in text
    assert f"compare    `labelscape compare {home}`" in text
    assert f"browse     `labelscape up {home}`" in text


def test_the_command_printed_by_lineage_repeats_the_run(
    command: Command, picture_folder: Path, here: Path
) -> None:
    made = command("run", picture_folder, *UNTRACKED, "--until", "ingest", "--home", "h", "--json")
    text = command("lineage", "--home", "h").out
    again = next(line for line in text.splitlines() if line.startswith("again")).removeprefix("again").strip()
    assert again == f"labelscape run --as {json.loads(made.out)['run']} --home {here / 'h'}"
    repeated = command(*shlex.split(again)[1:])
    assert repeated.code == 0, repeated.err
    assert "same results as" in repeated.out


def test_sync_names_the_store_that_it_read(command: Command, picture_folder: Path, here: Path) -> None:
    command("run", picture_folder, *UNTRACKED, "--until", "ingest", "--home", "h")
    assert f"every run of the store {here / '.labelscape' / 'store'} is recorded" in command("sync").out
    assert f"every run of the store {here / 'h' / 'store'} is recorded" in command("sync", "--home", "h").out


def test_a_missing_artifact_is_not_shown_as_bytes_of_the_source(
    command: Command, picture_folder: Path, here: Path
) -> None:
    command("run", picture_folder, *UNTRACKED, "--until", "affinity")
    store = ArtifactStore.local(here / ".labelscape" / "store")
    (run,) = RunLog(store).entries()
    features = run.stages["features"]
    assert store.discard("features", features.key)
    text = command("lineage").out
    assert f"features  {features.digest[:12]}  (no longer in the store)" in text
    assert f"{features.digest[:12]}  (bytes of the source)" not in text
    record = json.loads(command("lineage", "--json").out)
    (gone,) = (one for one in record["results"][0]["inputs"] if one["label"] == "features")
    assert gone["gone"] is True
    assert "(bytes of the source)" in command("lineage", run.stages["ingest"].key).out
    part = next(one for one in store.entries() if one["stage"] == "features_part")
    assert "no longer in the store" not in command("lineage", part["key"]).out
