"""The Parquet file of an artifact: the same bytes for the same content, and a digest in its footer."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.artifacts import disk, tables
from storage.artifacts.store import Artifact, ArtifactStore
from storage.errors import ArtifactDamaged
from tests.store_helpers import artifact, data_path, manifest_path, recipe, table


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.local(tmp_path / "store")


@pytest.mark.parametrize("portion", [1, 7, 50])
def test_equal_content_gives_equal_bytes_for_any_batches(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(tables, "GROUP_BYTES", 20 * tables._VARIABLE_BYTES)
    whole = store.compute(recipe(0), artifact).ref
    stream = Artifact(
        "sample", iter(table().to_batches(max_chunksize=portion)), artifact().metadata, table().schema
    )
    streamed = store.compute(recipe(1), lambda: stream).ref
    assert streamed.digest == whole.digest
    assert pq.ParquetFile(data_path(store, recipe(1))).metadata.num_row_groups > 1


def test_pages_do_not_depend_on_the_batches(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "GROUP_BYTES", 4 * 2**20)
    wide = table(rows=3000, width=384)
    whole = store.compute(recipe(0), lambda: Artifact("sample", wide)).ref
    stream = Artifact("sample", iter(wide.to_batches(max_chunksize=700)), {}, wide.schema)
    assert store.compute(recipe(1), lambda: stream).ref.digest == whole.digest


def test_a_stream_may_complete_its_metadata_at_the_end(store: ArtifactStore) -> None:
    metadata: dict[str, str] = {}

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table().to_batches()
        metadata["skipped"] = "2"

    ref = store.compute(recipe(), lambda: Artifact("sample", batches(), metadata, table().schema)).ref
    assert store.read(ref).schema.metadata[b"skipped"] == b"2"


def test_an_artifact_without_rows(store: ArtifactStore) -> None:
    ref = store.compute(recipe(), lambda: Artifact("sample", table().slice(0, 0))).ref
    assert ref.rows == 0
    assert store.read(ref).equals(table().slice(0, 0))


def test_the_footer_alone_proves_the_data(store: ArtifactStore) -> None:
    """`labelscape.digest` as documented, recomputed here from the bytes of the file."""
    store.compute(recipe(), artifact)
    data = data_path(store, recipe()).read_bytes()
    body = data[: len(data) - 8 - int.from_bytes(data[-8:-4], "little")]
    raw = pq.ParquetFile(data_path(store, recipe())).metadata.metadata
    entries = {name.decode(): text.decode() for name, text in raw.items() if name.startswith(b"labelscape.")}
    digest = entries.pop("labelscape.digest")
    plain = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
    assert digest == hashlib.sha256(body + plain).hexdigest()
    assert set(entries) == {"labelscape.kind", "labelscape.note", "labelscape.n"}


def test_a_rewritten_file_with_a_fitting_manifest_fails_by_its_footer(store: ArtifactStore) -> None:
    """Another table under the old footer entries: the manifest is made to fit, the footer is not."""
    manifest = store.details(store.compute(recipe(), artifact).ref)
    path = data_path(store, recipe())
    entries = pq.ParquetFile(path).metadata.metadata
    pq.write_table(table(1).replace_schema_metadata(entries), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    forged = manifest | {"digest": digest, "bytes": path.stat().st_size}
    path.replace(path.with_name(f"{recipe().key}-{digest}.parquet"))
    manifest_path(store, recipe()).write_bytes(disk.seal(forged))
    with pytest.raises(ArtifactDamaged, match="footer"):
        store.read(store.ref("features", recipe().key))


def test_it_is_not_read_through_a_python_file(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's threads may release a Python file while the interpreter shuts down; that aborts the process."""
    ref = store.compute(recipe(), artifact).ref
    opened, open_parquet = [], tables._open_parquet
    monkeypatch.setattr(tables, "_open_parquet", lambda file: opened.append(file) or open_parquet(file))
    assert store.read(ref).num_rows == ref.rows
    assert [type(file) for file in opened] == [pa.OSFile]
