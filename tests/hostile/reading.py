"""Give bytes to a reader as a user would, and check its answer: a valid collection, or a refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from flows.config import load_config
from storage.artifacts.models import load_model
from storage.artifacts.schemas import Manifest, pack_manifest
from storage.errors import LabelscapeError
from storage.sources import Collection, SourceOptions, open_source, read_edges
from storage.sources.feature_table import join_table

LONGEST_MESSAGE = 4_000
IDS = [f"item {k}" for k in range(5)]


@dataclass(frozen=True)
class Reading:
    """How the content of one file is read: the name of the file, and what is done with its folder."""

    file: str
    act: Callable[[Path], None]
    beside: Callable[[Path], None] | None = None
    longest_message: int = LONGEST_MESSAGE


def read_source(folder: Path) -> None:
    """Read a folder as a collection, and store its items."""
    cache = folder / "cache"
    source = open_source(SourceOptions(path=str(folder / "data")), cache)
    source.digest(cache)
    check_collection(source.read(cache))


def check_collection(found: Collection) -> None:
    """Check what the stages rely on; `Collection` checks the rest itself."""
    assert len(found.ids) == len(found.digests) == len(found.labels)
    assert found.split is None or len(found.split) == len(found.ids)
    assert found.parts
    assert all(len(note.message) < LONGEST_MESSAGE for note in found.notes)
    pack_manifest(Manifest(found.ids, found.digests, found.labels, found.label_names, found.split))
    assert all(found.part_digest(part.name) for part in found.parts)


def _write_images(folder: Path) -> None:
    for k in range(3):
        Image.new("RGB", (2, 2)).save(folder / f"{k}.png")


def _write_numbered(folder: Path) -> None:
    _write_images(folder)
    (folder / "metadata.csv").write_text("file_name,label\n0.png,0\n1.png,1\n2.png,1\n")


def _write_arff(folder: Path) -> None:
    (folder / "set.arff").write_text(
        "@relation r\n@attribute x real\n@attribute sky {0,1}\n@attribute sea {0,1}\n@data\n1,0,1\n2,1,0\n"
    )


def _write_labels(folder: Path) -> None:
    (folder / "set_labels.csv").write_text("class\na\nb\n")


def _write_kinds(folder: Path) -> None:
    (folder / "labels.csv").write_text("kind\na\nb\n")


def _join_table(path: Path) -> None:
    found = join_table(path, IDS, allow_missing=True)
    assert found.part.X is not None
    assert found.part.X.shape[0] == len(IDS)


def _write_matrix(folder: Path) -> None:
    import numpy as np
    from scipy import sparse

    sparse.save_npz(folder / "set_X.npz", sparse.csr_array(np.eye(2)))


# A message about settings lists all that are wrong; the terminal cuts it.
READINGS = {
    "arff": Reading("set.arff", read_source),
    "xml": Reading("set.xml", read_source, _write_arff),
    "csv": Reading("set.csv", read_source),
    "parquet": Reading("set.parquet", read_source),
    "npz": Reading("set_X.npz", read_source, _write_labels),
    "own-csv": Reading("own.csv", read_source),
    "feather": Reading("set.feather", read_source),
    "npy": Reading("set.npy", read_source, _write_kinds),
    "npz-dense": Reading("set.npz", read_source, _write_kinds),
    "feature-table": Reading("e.csv", lambda folder: _join_table(folder / "data" / "e.csv")),
    "label-table": Reading("set_labels.parquet", read_source, _write_matrix),
    "labels": Reading("labels.csv", read_source, _write_images),
    "labels-jsonl": Reading("metadata.jsonl", read_source, _write_images),
    "labels-parquet": Reading("metadata.parquet", read_source, _write_images),
    "coco": Reading("coco.json", read_source, _write_images),
    "fiftyone": Reading("labels.json", read_source, _write_images),
    "label-studio": Reading("export.json", read_source, _write_images),
    "json-min": Reading("minimal.json", read_source, _write_images),
    "card": Reading("README.md", read_source, _write_numbered),
    "edges": Reading("edges.csv", lambda folder: _read_edges(folder / "data" / "edges.csv")),
    "edges-parquet": Reading("edges.parquet", lambda folder: _read_edges(folder / "data" / "edges.parquet")),
    "toml": Reading("run.toml", lambda folder: _read_config(folder / "data" / "run.toml"), None, 10**6),
    "model": Reading("model.skops", lambda folder: _read_model(folder / "data" / "model.skops")),
}


def _read_edges(path: Path) -> None:
    i, j, w = read_edges(path, IDS)
    assert len(i) == len(j) == len(w)


def _read_config(path: Path) -> None:
    load_config(path)


def _read_model(path: Path) -> None:
    load_model(path.read_bytes(), [])


def answer(kind: str, content: bytes, folder: Path) -> LabelscapeError | None:
    """Read content in a folder of its kind: None if it was accepted, else the refusal. Other errors pass."""
    reading = READINGS[kind]
    data = folder / "data"
    if not data.is_dir():
        data.mkdir(parents=True)
        if reading.beside is not None:
            reading.beside(data)
    (data / reading.file).write_bytes(content)
    try:
        reading.act(folder)
    except LabelscapeError as error:
        message = str(error)
        assert len(message) <= reading.longest_message, f"a message of {len(message)} characters"
        return error
    return None
