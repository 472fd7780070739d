"""Mulan data sets: ARFF, dense and sparse, with and without XML."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source
from storage.sources.arff import read_label_xml
from storage.sources.arff_text import parse_arff

HEADER = """% a comment
@RELATION 'small set'

@attribute width numeric
@Attribute 'the "height"' REAL
@attribute "a \\"quoted\\" name" integer  % beside it
@attribute sky {0,1}
@attribute 'deep water' { 0, 1 }
@data
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
  <label name="deep water"><label name="sky"/></label>
</labels>
"""
DENSE = HEADER + "1.5, -2e3, 3, 1, 0\n% between\n\n0,0,7,0,1\r\n0,1,0,?,?\n"
SPARSE = HEADER + "{0 1.5, 1 -2e3,2 3, 3 1}\n{ 2 7, 4 1 }\n{1 1,3 ?,4 ?}\n"


def write_set(folder: Path, arff: str, xml: str | None = XML) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "small.arff").write_text(arff, encoding="utf-8")
    if xml is not None:
        (folder / "small.xml").write_text(xml, encoding="utf-8")
    return folder


def read(path: Path, **options: object) -> Collection:
    cache = path.parent / "cache"
    return open_source(SourceOptions(path=str(path), **options), cache).read(cache)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [DENSE, SPARSE, "\ufeff" + DENSE])
@pytest.mark.parametrize("name", ["", "small.arff"])
def test_dense_and_sparse_files_read_the_same(tmp_path: Path, text: str, name: str) -> None:
    folder = write_set(tmp_path / "set", text)
    collection = read(folder / name)
    assert collection.kind == "arff"
    X = collection.X.toarray() if sparse.issparse(collection.X) else collection.X  # type: ignore[union-attr]
    assert np.array_equal(X, [[1.5, -2000, 3], [0, 0, 7], [0, 1, 0]])
    assert collection.X.dtype == np.float32  # type: ignore[union-attr]
    assert sparse.issparse(collection.X) == (text is SPARSE)
    assert collection.feature_names == ["width", 'the "height"', 'a "quoted" name']
    assert collection.label_names == ["sky", "deep water"]
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1]]
    assert not collection.single_label
    assert collection.ids == ["0", "1", "2"]


def test_a_class_attribute_without_xml(tmp_path: Path) -> None:
    text = "@relation r\n@attribute x real\n@attribute Class {'big cat', dog, \"it's\"}\n@data\n"
    folder = write_set(tmp_path / "set", text + "1,'big cat'\n2,dog\n3,?\n4, 'big cat' \n", None)
    collection = read(folder)
    assert collection.single_label
    assert collection.label_names == ["big cat", "dog"]
    assert collection.labels.tolist() == [[1, 0], [0, 1], [-1, -1], [1, 0]]
    assert any('"it\'s" is dropped: no item has it' in note.message for note in collection.notes)


def test_the_class_attribute_may_be_named(tmp_path: Path) -> None:
    text = "@relation r\n@attribute kind {u,v}\n@attribute x real\n@data\nu,1\nv,2\n"
    folder = write_set(tmp_path / "set", text, None)
    assert read(folder, labels="kind").label_names == ["u", "v"]
    with pytest.raises(SourceError, match=r"no XML file .* no attribute 'class'"):
        read(folder)


def test_nominal_features(tmp_path: Path) -> None:
    header = (
        "@relation r\n@attribute n {1,5}\n@attribute two {no,yes}\n@attribute x real\n"
        "@attribute many {r,g,b}\n@attribute class {u,v}\n@data\n"
    )
    dense = write_set(tmp_path / "dense", header + "5,yes,2,b,u\n1,no,0,r,v\n", None)
    spare = write_set(tmp_path / "sparse", header + "{0 5,1 yes,2 2,3 b}\n{4 v}\n", None)
    expected = [[5, 1, 2, 0, 0, 1], [1, 0, 0, 1, 0, 0]]
    for folder in (dense, spare):
        collection = read(folder)
        X = collection.X.toarray() if sparse.issparse(collection.X) else collection.X  # type: ignore[union-attr]
        assert np.array_equal(X, expected)
        assert collection.feature_names == ["n", "two=yes", "x", "many=r", "many=g", "many=b"]
        assert collection.labels.tolist() == [[1, 0], [0, 1]]


def test_xml_of_a_train_part_and_named_xml(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", DENSE)
    (folder / "small.arff").rename(folder / "small-train.arff")
    (folder / "other.xml").write_text("<labels/>")
    assert read(folder / "small-train.arff").label_names == ["sky", "deep water"]
    (folder / "small.xml").rename(folder / "mine.xml")
    assert read(folder / "small-train.arff", labels="mine.xml").label_names == ["sky", "deep water"]


def test_digest_covers_the_xml(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", DENSE)
    source = open_source(SourceOptions(path=str(folder)), tmp_path)
    first = source.digest(tmp_path)
    assert source.digest(tmp_path) == first
    (folder / "small.xml").write_text(XML + "<!-- changed -->")
    assert source.digest(tmp_path) != first


def test_the_order_within_a_sparse_row_does_not_matter(tmp_path: Path) -> None:
    first = read(write_set(tmp_path / "one", HEADER + "{0 1,2 7,4 1}\n{1 2,3 1}\n"))
    second = read(write_set(tmp_path / "two", HEADER + "{4 1,2 7,0 1}\n{3 1,1 2}\n"))
    assert first.digests == second.digests


def test_a_wide_sparse_file_stays_sparse(tmp_path: Path) -> None:
    p = 20_000
    header = (
        "@relation r\n"
        + "".join(f"@attribute t{k} numeric\n" for k in range(p))
        + "@attribute class {u,v}\n@data\n"
    )
    folder = write_set(tmp_path / "set", header + f"{{7 2,{p} v}}\n{{19999 1}}\n", None)
    X = read(folder).X
    assert sparse.issparse(X)
    assert X.shape == (2, p)  # type: ignore[union-attr]
    assert X.nnz == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2,3,1,0\n1,2,3,1\n", r"line 11: 4 values for 5 declared attributes"),
        ("1,2,3,1,0\n1,two,3,1,0\n", r"line 11: attribute 'the \"height\"' is 'two'; expected a number"),
        ("1,2,3,1,0\n1,2,3,2,0\n", r"line 11: attribute 'sky' is '2'; expected one of 0, 1"),
        ("1,2,3,1,0\n1,?,3,0,1\n", r"line 11: feature 'the \"height\"' is missing or not finite \(1 such"),
        ("1,2,3,1,0\n1,1e60,3,0,1\n", r"line 11: feature 'the \"height\"' is missing or not finite"),
        ("{3 1}\n{1 ?,4 1}\n", r"line 11: feature 'the \"height\"' is missing"),
        ("1,2,3,1,0\n1,2,3,?,0\n", r"line 11: label 'sky' is \? while other labels"),
        ("{0 1}\n{9 1}\n", "line 11: attribute 9 exceeds the last one, 4"),
        ("{0 1}\n{0 1,0 2}\n", "line 11: attribute 0 is repeated"),
        ("{0 1}\n{x 1}\n", "line 11: 'x 1' is not a pair 'attribute-number value'"),
        ("{0 1}\n{0 1\n", "line 11: the sparse row has no closing brace"),
        ("{0 1}\n1,2,3,1,0\n", "line 11: dense and sparse rows are mixed"),
        ("1,2,3,1,0\n'1,2,3,1,0\n", "line 11: the quotes in"),
        ("", "has no rows after @data"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, rows: str, message: str) -> None:
    folder = write_set(tmp_path / "set", HEADER + rows)
    with pytest.raises(SourceError, match=message):
        read(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends without @data"),
        ("hello there\n", "line 1: 'hello there' found; expected @relation"),
        ("@relation r\n@attribute x\n@data\n1\n", "line 2: .* is not of the form '@attribute name type'"),
        ("@relation r\n@attribute x string\n@data\n1\n", "line 2: attribute 'x' has the type 'string'"),
        ("@relation r\n@attribute x {a,b\n@data\n1\n", "line 2: .* closing brace"),
        ("@relation r\n@attribute x real\n@attribute x real\n@data\n1,2\n", "attribute 'x' more than once"),
        ("@relation r\n@data\n1\n", "declares no @attribute"),
        ("@relation r\n@attribute x real\n@attribute class real\n@data\n1,2\n", "'class' is numeric"),
    ],
)
def test_bad_headers_are_named(tmp_path: Path, text: str, message: str) -> None:
    folder = write_set(tmp_path / "set", text, None)
    with pytest.raises(SourceError, match=message):
        read(folder / "small.arff")


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<labels>", "line 1: not well-formed XML"),
        ("<labels/>", "lists no labels"),
        (
            '<labels><label name="fog"/><label name="sky"/></labels>',
            "names the label 'fog', which is not an attribute",
        ),
        (
            '<labels><label name="width"/><label name="sky"/></labels>',
            r"line 10: the label 'width' is 1\.5; expected 0, 1 or \?",
        ),
        (
            '<!DOCTYPE x [<!ENTITY a "aaaa">]><labels><label name="&a;"/></labels>',
            "declares XML entities",
        ),
    ],
)
def test_bad_xml_is_named(tmp_path: Path, xml: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(write_set(tmp_path / "set", DENSE, xml))


def test_a_file_without_features_is_an_error(tmp_path: Path) -> None:
    text = "@relation r\n@attribute a {0,1}\n@attribute b {0,1}\n@data\n0,1\n1,0\n"
    xml = '<labels><label name="a"/><label name="b"/></labels>'
    with pytest.raises(SourceError, match="every attribute is a label"):
        read(write_set(tmp_path / "set", text, xml))


def test_nested_labels_are_flattened(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", DENSE)
    assert read_label_xml(folder / "small.xml") == ["deep water", "sky"]


def test_a_real_table_round_trips_through_arff(shared_data: Path, tmp_path: Path) -> None:
    table = pq.read_table(shared_data / "emotions" / "emotions.parquet").drop_columns(["split"])
    labels = [name.removeprefix("label:") for name in table.column_names if name.startswith("label:")]
    lines = ["@relation emotions"]
    for name in table.column_names:
        lines.append(f"@attribute {name} numeric" if name[0] == "f" else f"@attribute {name[6:]} {{0,1}}")
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lines += ["@data", *(",".join(map(repr, row)) for row in rows)]
    xml = "<labels>" + "".join(f'<label name="{name}"/>' for name in labels) + "</labels>"
    folder = write_set(tmp_path / "set", "\n".join(lines), xml)
    ours, theirs = (
        read(folder),
        open_source(SourceOptions(path=str(shared_data / "emotions")), tmp_path).read(tmp_path),
    )
    assert np.array_equal(ours.labels, theirs.labels)
    assert ours.digests == theirs.digests
    assert len(parse_arff(folder / "small.arff").lines) == 593
