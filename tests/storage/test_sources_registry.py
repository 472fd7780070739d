"""The registry of readers: recognition, names and messages follow from its entries."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from storage.errors import SourceError
from storage.sources import Collection, Source, SourceOptions, open_source
from storage.sources.base import FEATURE_PARTS, FileReader, Match, given_features
from storage.sources.registry import READERS, source_names, supported_sources


@dataclass(frozen=True)
class TinySource:
    """A source that is never read."""

    path: Path
    options: SourceOptions
    kind: str = "tiny"
    parts = FEATURE_PARTS
    name: str = "tiny"

    def digest(self, cache_dir: Path) -> str:
        raise NotImplementedError

    def read(self, cache_dir: Path) -> Collection:
        raise NotImplementedError


class TinyReader(FileReader):
    """Opens .tiny files, and empty ones only if nothing else matches."""

    kind = "tiny"
    supports = "a .tiny file"

    def recognize(self, path: Path, options: SourceOptions, cache_dir: Path) -> Match:
        if path.suffix != ".tiny":
            return Match.NO
        return Match.DATA_SET if path.stat().st_size else Match.POSSIBLE

    def open(self, path: Path, options: SourceOptions) -> Source:
        return TinySource(path, options)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "tiny", TinyReader())


def opened(path: Path, **options: str) -> Source:
    return open_source(SourceOptions(path=str(path), **options), path.parent / "cache")  # type: ignore[arg-type]


def test_one_entry_is_enough_to_open_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.tiny").write_text("x")
    assert opened(tmp_path / "a.tiny").kind == "tiny"
    assert opened(tmp_path).kind == "tiny", "the only data set of the folder"
    assert opened(tmp_path, kind="tiny").kind == "tiny"


def test_messages_list_every_reader(tmp_path: Path) -> None:
    assert "a .tiny file" in supported_sources()
    with pytest.raises(SourceError, match=r"Expected: .*a \.tiny file"):
        opened(tmp_path / "missing")
    with pytest.raises(SourceError, match=r"use one of auto, .*, tiny"):
        opened(tmp_path, kind="huge")


def test_a_complete_data_set_comes_before_one_that_is_only_possible(tmp_path: Path) -> None:
    (tmp_path / "a.tiny").touch()
    assert opened(tmp_path).kind == "tiny"
    (tmp_path / "b.csv").write_text("f0,class\n1,x\n2,y\n")
    assert opened(tmp_path).kind == "table"
    (tmp_path / "a.tiny").write_text("x")
    with pytest.raises(SourceError, match=r"several data sets: a\.tiny, b\.csv"):
        opened(tmp_path)


def test_built_in_sets_have_names() -> None:
    assert source_names() == ["demo", "digits", "iris", "wine", "torus", "clusdat", "three_suns"]


@pytest.mark.parametrize("kind", sorted(READERS))
def test_every_reader_describes_itself(kind: str) -> None:
    reader = READERS[kind]
    assert reader.kind == kind
    assert reader.supports


GOOD = np.ones((2, 3), dtype=np.float32)
HOLE = np.array([[1, 2], [3, np.nan]], dtype=np.float32)


def collect(X: "np.ndarray | csr_array | None", ids: str = "ab", rows: int = 2) -> Collection:
    labels = np.zeros((rows, 1), dtype=np.int8)
    return Collection("tiny", list(ids), given_features(X, list(ids), None), labels, ["red"], None, False, [])


@pytest.mark.parametrize(
    ("X", "ids", "rows", "says"),
    [
        (GOOD, "aa", 2, "several items have the id 'a'"),
        (GOOD, "ab", 3, r"labels of shape \(3, 1\); expected \(2, 1\)"),
        (GOOD[0], "abc", 3, r"features of shape \(3,\) for 3 items"),
        (GOOD[:, :0], "ab", 2, r"features of shape \(2, 0\)"),
        (GOOD, "abc", 3, r"features of shape \(2, 3\) for 3 items"),
        (HOLE, "ab", 2, "item 'b' contain a missing or infinite value"),
        (csr_array(HOLE), "ab", 2, "item 'b' contain a missing or infinite value"),
    ],
)
def test_a_collection_that_does_not_fit_together_is_refused(
    X: "np.ndarray | csr_array", ids: str, rows: int, says: str
) -> None:
    with pytest.raises(SourceError, match=f"tiny: .*{says}"):
        collect(X, ids, rows)


@pytest.mark.parametrize("X", [GOOD, csr_array(GOOD), None])
def test_a_collection_that_fits_together_is_accepted(X: "np.ndarray | csr_array | None") -> None:
    assert collect(X).ids == ["a", "b"]
