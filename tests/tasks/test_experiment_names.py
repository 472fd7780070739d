"""Experiments belong to sources: two sources with the same name never share one."""

from pathlib import Path

import pytest

from storage.artifacts.store import ArtifactStore
from tasks.experiment_names import claim_experiment, find_experiment
from tasks.settings import SourceSettings


@pytest.fixture
def store(any_store: ArtifactStore) -> ArtifactStore:
    return any_store


def source(folder: Path) -> SourceSettings:
    folder.mkdir(parents=True, exist_ok=True)
    return SourceSettings(path=str(folder))


def test_the_first_source_has_the_plain_name(store: ArtifactStore, tmp_path: Path) -> None:
    first = source(tmp_path / "a" / "photos")
    assert find_experiment(store, first, "photos") == "photos"
    claim_experiment(store, first, "photos")
    assert find_experiment(store, first, "photos") == "photos"


def test_others_are_told_apart_by_their_folders(store: ArtifactStore, tmp_path: Path) -> None:
    places = [tmp_path / "a" / "photos", tmp_path / "b" / "photos", tmp_path / "c" / "b" / "photos"]
    names = []
    for place in places:
        names.append(find_experiment(store, source(place), "photos"))
        claim_experiment(store, source(place), names[-1])
    assert names == ["photos", "b/photos", "c/b/photos"]
    assert [find_experiment(store, source(place), "photos") for place in places] == names


def test_a_claim_stays_with_the_first_source(store: ArtifactStore, tmp_path: Path) -> None:
    first, second = source(tmp_path / "a" / "photos"), source(tmp_path / "b" / "photos")
    claim_experiment(store, first, "photos")
    claim_experiment(store, second, "photos")
    assert find_experiment(store, first, "photos") == "photos"


def test_built_in_sets(store: ArtifactStore) -> None:
    claim_experiment(store, SourceSettings(path="iris"), "iris")
    assert find_experiment(store, SourceSettings(path="iris"), "iris") == "iris"


def test_two_spellings_of_one_folder(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_experiment(store, source(tmp_path / "photos"), "photos")
    monkeypatch.chdir(tmp_path)
    assert find_experiment(store, SourceSettings(path="photos"), "photos") == "photos"
