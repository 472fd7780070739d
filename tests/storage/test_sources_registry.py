"""The registry of readers: recognition, names and messages follow from its entries."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.errors import SourceError
from storage.sources import Collection, Source, SourceOptions, open_source
from storage.sources.base import Content, FileReader, Match
from storage.sources.registry import READERS, source_names, supported_sources


@dataclass(frozen=True)
class TinySource:
    """A source that is never read."""

    path: Path
    options: SourceOptions
    kind: str = "tiny"
    content: Content = "features"
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
