"""Properties of every reader: any bytes are accepted or refused, and what is written is read back."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse

from storage.sources import Collection, SourceOptions, open_source, read_edges
from tests.hostile.fuzz import mutate
from tests.hostile.reading import READINGS, answer, check_collection
from tests.hostile.seeds import SEEDS
from tests.picture_collections import coco, fiftyone, minimal, samples, task, write_json

# skops imports scikit-learn.
FAST = [kind for kind in READINGS if kind != "model"]
few = settings(
    max_examples=6,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
many = settings(few, max_examples=100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAST)
@few
@given(content=st.binary(max_size=200))
def test_any_bytes_are_accepted_or_refused(kind: str, content: bytes, tmp_path: Path) -> None:
    answer(kind, content, tmp_path / "any")


def check_seed(kind: str, seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    answer(kind, mutate(SEEDS[kind](rng), rng), folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAST)
@few
@given(seed=st.integers(0, 2**32))
def test_nearly_valid_files_are_accepted_or_refused(kind: str, seed: int, tmp_path: Path) -> None:
    check_seed(kind, seed, tmp_path / "nearly")


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(READINGS))
@many
@given(seed=st.integers(0, 2**32))
def test_many_nearly_valid_files_are_accepted_or_refused(kind: str, seed: int, tmp_path: Path) -> None:
    check_seed(kind, seed, tmp_path / "nearly")


# Round trips.

names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(
    lambda text: text == text.strip() and text not in ("?", "")
)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """Features (n, p), and one class per row, of which two or more differ."""
    n, p = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    X = np.array(draw(st.lists(floats, min_size=n * p, max_size=n * p)), dtype=np.float32).reshape(n, p)
    known = draw(st.lists(names, min_size=2, max_size=3, unique=True))
    return X, [known[k % len(known)] for k in range(n)]


def read(path: Path, cache: Path) -> Collection:
    found = open_source(SourceOptions(path=str(path)), cache).read(cache)
    check_collection(found)
    return found


def check_equal(found: Collection, X: np.ndarray, classes: list[str]) -> None:
    values = found.X if isinstance(found.X, np.ndarray) else found.X.toarray()  # type: ignore[union-attr]
    np.testing.assert_array_equal(values, X)
    assert [found.label_names[int(np.argmax(row))] for row in found.labels] == classes


def quote_arff(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize("is_sparse", [False, True])
@few
@given(table=tables(), end=st.sampled_from(["\n", "\r\n", "\r"]), mark=st.sampled_from(["", "\ufeff"]))
def test_arff_round_trip(
    is_sparse: bool, table: tuple[np.ndarray, list[str]], end: str, mark: str, tmp_path: Path
) -> None:
    X, classes = table
    declared = ",".join(quote_arff(name) for name in dict.fromkeys(classes))
    lines = ["@relation r", *(f"@attribute a{k} real" for k in range(X.shape[1]))]
    lines += [f"@attribute class {{{declared}}}", "@data"]
    for row, name in zip(X.tolist(), classes, strict=True):
        cells = [*map(repr, row), quote_arff(name)]
        pairs = "{" + ", ".join(f"{k} {cell}" for k, cell in enumerate(cells)) + "}"
        lines.append(pairs if is_sparse else ",".join(cells))
    (tmp_path / "set.arff").write_bytes((mark + end.join(lines)).encode())
    check_equal(read(tmp_path / "set.arff", tmp_path), X, classes)


@few
@given(table=tables())
def test_parquet_round_trip(table: tuple[np.ndarray, list[str]], tmp_path: Path) -> None:
    X, classes = table
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "class": classes}), tmp_path / "set.parquet")
    check_equal(read(tmp_path / "set.parquet", tmp_path), X, classes)


@few
@given(table=tables(), mark=st.sampled_from(["", "\ufeff"]))
def test_csv_round_trip(table: tuple[np.ndarray, list[str]], mark: str, tmp_path: Path) -> None:
    X, classes = table
    classes = [f"c {name}" for name in classes]  # not one of the words that mean an empty cell
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow([*(f"f{k}" for k in range(X.shape[1])), "class"])
    rows.writerows([*map(repr, row), name] for row, name in zip(X.tolist(), classes, strict=True))
    (tmp_path / "set.csv").write_bytes((mark + text.getvalue()).encode())
    check_equal(read(tmp_path / "set.csv", tmp_path), X, classes)


@few
@given(table=tables(), compressed=st.booleans(), form=st.sampled_from(["csr", "csc", "coo"]))
def test_npz_round_trip(
    table: tuple[np.ndarray, list[str]], compressed: bool, form: str, tmp_path: Path
) -> None:
    X, classes = table
    sparse.save_npz(tmp_path / "set_X.npz", sparse.csr_array(X).asformat(form), compressed=compressed)
    pq.write_table(pa.table({"class": classes}), tmp_path / "set_labels.parquet")
    check_equal(read(tmp_path / "set_X.npz", tmp_path), X, classes)


labels = st.lists(names.filter(lambda name: "|" not in name), min_size=1, max_size=3, unique=True)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@few
@given(first=labels, second=labels)
def test_label_file_round_trip(suffix: str, first: list[str], second: list[str], tmp_path: Path) -> None:
    given_labels = {"a.png": first, "b.png": [*second, "other"], "c.png": ["c"]}
    for name in given_labels:
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    path = tmp_path / f"labels{suffix}"
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(
                [["filename", "labels"], *([name, "|".join(found)] for name, found in given_labels.items())]
            )
    elif suffix == ".jsonl":
        records = ({"file_name": name, "labels": found} for name, found in given_labels.items())
        path.write_text("\n".join(map(json.dumps, records)))
    else:
        columns = {"file_name": list(given_labels), "labels": list(given_labels.values())}
        pq.write_table(pa.table(columns), path)
    found = read(tmp_path, tmp_path / "cache")
    chosen = [{found.label_names[k] for k in np.flatnonzero(row)} for row in found.labels]
    assert dict(zip(found.ids, chosen, strict=True)) == {k: set(v) for k, v in given_labels.items()}


WRITTEN: dict[str, Callable[[Path, dict[str, list[str]]], object]] = {
    "coco": lambda folder, given: write_json(folder / "coco.json", coco(given)),
    "fiftyone": lambda folder, given: write_json(folder / "labels.json", fiftyone(given, multi=True)),
    "samples": lambda folder, given: write_json(
        folder / "samples.json", samples(given, multi=True, guess=False)
    ),
    "label studio": lambda folder, given: write_json(
        folder / "export.json",
        [task(k, f"/data/upload/1/{name}", [one]) for k, (name, one) in enumerate(given.items())],
    ),
    "boxes of label studio": lambda folder, given: write_json(
        folder / "export.json",
        [task(k, name, [one], kind="polygonlabels") for k, (name, one) in enumerate(given.items())],
    ),
    "json-min": lambda folder, given: write_json(
        folder / "export.json",
        [minimal(k, name, tags={"choices": one}) for k, (name, one) in enumerate(given.items())],
    ),
    "objects": lambda folder, given: (folder / "metadata.jsonl").write_text(
        "\n".join(
            json.dumps({"file_name": name, "objects": {"categories": one}}) for name, one in given.items()
        )
    ),
}
spaced_names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(
    str.strip
)


@pytest.mark.slow
@pytest.mark.parametrize("form", WRITTEN)
@few
@given(data=st.data())
def test_annotation_file_round_trip(form: str, data: st.DataObject, tmp_path: Path) -> None:
    """Labels are read as they are written, with their spaces; an empty list means no label."""
    # The labels of tables are separated by spaces and marks, so these do not count there.
    texts = names if form == "objects" else spaced_names
    known = data.draw(st.lists(texts, min_size=2, max_size=4, unique=True))
    given_labels = {f"{k}.png": data.draw(st.lists(st.sampled_from(known), unique=True)) for k in range(3)}
    given_labels |= {"3.png": known[:2]}
    for name in given_labels:
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    WRITTEN[form](tmp_path, given_labels)
    found = read(tmp_path, tmp_path / "cache")
    chosen = [{found.label_names[k] for k in np.flatnonzero(row == 1)} for row in found.labels]
    assert dict(zip(found.ids, chosen, strict=True)) == {k: set(v) for k, v in given_labels.items()}
    assert (found.labels >= 0).all()
    assert not found.single_label
    assert found.notes == []


@few
@given(ids=st.lists(names, min_size=2, max_size=5, unique=True), data=st.data())
def test_edges_round_trip(ids: list[str], data: st.DataObject, tmp_path: Path) -> None:
    ends = st.integers(0, len(ids) - 1)
    edges = data.draw(st.lists(st.tuples(ends, ends, st.floats(0, 1e30)), min_size=1, max_size=6))
    i, j, w = map(list, zip(*edges, strict=True))
    pq.write_table(pa.table({"i": i, "j": j, "w": w}), tmp_path / "positions.parquet")
    named = {"source": [ids[k] for k in i], "target": [ids[k] for k in j], "w": w}
    pq.write_table(pa.table(named), tmp_path / "names.parquet")
    for name in ("positions", "names"):
        found = read_edges(tmp_path / f"{name}.parquet", ids)
        for got, wanted in zip(found, (i, j, w), strict=True):
            np.testing.assert_array_equal(got, wanted)
