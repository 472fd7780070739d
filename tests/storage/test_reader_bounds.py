"""Files that claim or contain too much are refused before they are loaded, and parsed in linear time."""

import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from storage import limits
from storage.errors import LabelscapeError, SourceError
from storage.parquet_footer import count_values
from storage.sources import Collection, SourceOptions, open_source, read_edges, sparse_text
from storage.sources.class_names import names_in_card
from storage.sources.coco import read_coco
from storage.sources.json_text import outline
from tests.picture_collections import coco, write_json

HEADER = "@relation r\n@attribute x real\n@attribute class {a,b}\n@data\n"


def read(folder: Path, content: str | bytes, name: str = "set.arff") -> Collection:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    cache = folder.parent / "cache"
    return open_source(SourceOptions(path=str(folder)), cache).read(cache)


def peak_of(action: Callable[[], object]) -> tuple[str, int]:
    """The refusal of an action and its peak memory in MB above the start, in a child process."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        text, before = "no refusal", _status("VmRSS")
        try:
            action()
        except LabelscapeError as error:
            text = str(error)
        finally:
            os.write(sender, json.dumps([text[:2000], (_status("VmHWM") - before) // 1024]).encode())
            os._exit(0)
    os.close(sender)
    os.waitpid(child, 0)
    with os.fdopen(receiver, "rb") as answers:
        text, megabytes = json.loads(answers.read())
    return text, megabytes


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


# ARFF.


@pytest.mark.parametrize(
    ("row", "accepted"),
    [
        ("1,{space}'a'{space}", True),
        ("1{space},a", True),
        ("{{0{space}1{space},{space}1 b}}", True),
        ("1,'a'{space}x", False),
        ("1,{space}'a", False),
        ("{{0 1{space}'}}", False),
        ("1,'" + r"\'" * 50_000, False),
    ],
)
def test_spaces_and_quotes_take_linear_time(tmp_path: Path, row: str, accepted: bool) -> None:
    # With a quadratic parser each of these takes minutes.
    line = row.format(space=" " * 100_000)
    other = "{1 b}" if line.startswith("{") else "2,b"
    content = f"{HEADER}{line}\n{other}\n" + ("{}\n" if line.startswith("{") else "3,a\n")
    if accepted:
        assert len(read(tmp_path / "set", content).ids) == 3
    else:
        with pytest.raises(SourceError, match="line 5") as caught:
            read(tmp_path / "set", content)
        assert len(str(caught.value)) < 1000


def test_a_row_of_many_pairs_takes_linear_time(tmp_path: Path) -> None:
    count = 10_000
    names = "".join(f"@attribute a{k} real\n" for k in range(count))
    row = "{" + ", ".join(f"{k} 1" for k in range(count)) + "}"
    found = read(
        tmp_path / "set", f"@relation r\n{names}@attribute class {{a,b}}\n@data\n{row}\n{{{count} b}}\n"
    )
    assert found.X is not None
    assert found.X.shape == (2, count)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + "1_0,a\n2,b\n", "attribute 'x' is '1_0'; expected a number"),
        (HEADER + "infinity,a\n2,b\n", "is 'infinity'; expected a number"),
        (HEADER + "nan,a\n2,b\n", "is 'nan'; expected a number"),
        (HEADER + "٣,a\n2,b\n", "is '٣'; expected a number"),
        (HEADER + "{٠ 1}\n", "is not a pair"),
        (HEADER + "{" + "9" * 5000 + " 1}\n", "is not a pair"),
        (HEADER + f"1,{'c' * 10**6}\n", r"is 'c{80}'\.\.\. \(1000000 characters\); expected one of a, b"),
        (HEADER + "1," * 10**6, "more than 2 values for 2 declared attributes"),
        ("@relation r\n@attribute x {" + "a," * 200_000 + "b}\n@data\na\n", "more than 100,000 values"),
        (HEADER + "1,a\0\n", "contains NUL characters"),
        ((HEADER + "1,a\n").encode("utf-16"), "is not UTF-8 text but UTF-16"),
        (
            HEADER.replace("{a,b}", "{'a\x1b[31m',b}") + "1,b\n2,'a\x1b[31m'\n",
            r"contains the character '\\x1b'",
        ),
        (
            HEADER.replace("{a,b}", "{" + "a" * 5000 + ",b}") + f"1,b\n2,{'a' * 5000}\n",
            "is too long; at most 1,000",
        ),
    ],
)
def test_refused_arff(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path / "set", content)
    assert len(str(caught.value)) < 1000


def test_a_nominal_attribute_does_not_become_millions_of_columns(tmp_path: Path) -> None:
    values = ",".join(f"v{k}" for k in range(50_000))
    content = (
        f"@relation r\n@attribute x {{{values}}}\n@attribute class {{a,b}}\n@data\n" + "v1,a\nv2,b\n" * 5_000
    )
    with pytest.raises(SourceError, match=r"10,000 rows of 50,000 features needs about 10\.0 GB"):
        read(tmp_path / "set", content)


def test_many_labels_are_refused(tmp_path: Path) -> None:
    rows = "\n".join(f"{k},c{k}" for k in range(10_001))
    with pytest.raises(SourceError, match=r"10,001 items have 10,001 different labels; at most 10,000"):
        read(tmp_path / "set", f"f0,class\n{rows}\n", "set.csv")


# Sparse matrices.


def write_npz(folder: Path, shape: tuple[int, int], **arrays: np.ndarray) -> bytes:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"class": ["a", "b"]}), folder / "set_labels.parquet")
    target = io.BytesIO()
    np.savez_compressed(target, format=np.array(b"coo"), shape=np.array(shape), **arrays)
    return target.getvalue()


ONE = {"row": np.zeros(1, int), "col": np.zeros(1, int), "data": np.ones(1)}


@pytest.mark.parametrize("shape", [(10**9, 3), (2, 10**12), (10**18, 10**18)])
def test_a_tiny_matrix_that_claims_to_be_huge(tmp_path: Path, shape: tuple[int, int]) -> None:
    content = write_npz(tmp_path / "set", shape, **ONE)
    with pytest.raises(
        SourceError, match=r"set_X\.npz: a matrix of .* needs about .* are plausible for a file of"
    ):
        read(tmp_path / "set", content, "set_X.npz")


def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_npz(tmp_path / "set", (2, 3), **{name: np.zeros(10**5) for name in ONE})
    monkeypatch.setattr(limits, "SMALL", 10**6)
    monkeypatch.setattr(sparse_text.np, "load", None)
    with pytest.raises(SourceError, match=r"a matrix of 2 x 3 needs about .* are plausible for a file of"):
        read(tmp_path / "set", content, "set_X.npz")


def test_an_array_shorter_than_it_claims(tmp_path: Path) -> None:
    content = write_npz(tmp_path / "set", (2, 3), **ONE)
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": (10**9,)}
    np.lib.format.write_array_header_1_0(header, claim)
    (tmp_path / "bomb").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "bomb", "a") as archive:
        archive.writestr("other.npy", header.getvalue())
    with pytest.raises(SourceError, match="an array of shape"):
        read(tmp_path / "set", (tmp_path / "bomb").read_bytes(), "set_X.npz")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_a_real_bomb_needs_little_memory(tmp_path: Path, kind: str) -> None:
    if kind == "npz":
        name, content = (
            "set_X.npz",
            write_npz(tmp_path / "set", (2, 3), **{name: np.zeros(10**8) for name in ONE}),
        )
    else:
        zeros = np.zeros(10**8, np.int8)
        name, content = "set.parquet", table_bytes({"f0": zeros, "class": zeros}, compression="zstd")
    text, megabytes = peak_of(lambda: read(tmp_path / "set", content, name))
    assert "are plausible for a file of" in text
    assert megabytes < 200


@pytest.mark.parametrize(
    "arrays",
    [{"data": np.array([{}], dtype=object)}, {"data": np.ones(1, complex)}, {"data": np.ones((1, 1))}],
)
def test_other_arrays_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(SourceError, match=r"set_X\.npz"):
        read(tmp_path / "set", write_npz(tmp_path / "set", (2, 3), **(ONE | arrays)), "set_X.npz")


# Tables.


def table_bytes(columns: dict[str, object], **options: object) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, **options)
    return target.getvalue()


def test_a_table_of_very_many_equal_rows(tmp_path: Path) -> None:
    zeros = np.zeros(2_000_000, np.int8)
    content = table_bytes({"f0": zeros, "class": zeros}, compression="zstd")
    assert len(content) < 10**6
    with pytest.raises(SourceError, match=r"2,000,000 rows of 2 columns needs about 0\.6 GB"):
        read(tmp_path / "set", content, "set.parquet")


def test_a_long_text_that_is_repeated_is_in_memory_once(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3_000, np.int32)), pa.array(["a" * 1_000_000]))
    content = table_bytes(
        {"f0": np.zeros(3_000), "class": texts}, store_schema=False, dictionary_pagesize_limit=2**30
    )
    text, megabytes = peak_of(lambda: read(tmp_path / "set", content, "set.parquet"))
    assert "has one label only" in text
    assert len(text) < 1000
    assert megabytes < 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("f0,class\n1_0,a\n", "column 'f0': '1_0' is not a number"),
        ("f0,class\n1," + "a" * 200_000 + "\nx,b\n", "line 2: field larger than field limit"),
        ("f0," * 100_000 + "class\n", "column 'f0' more than once"),
        (
            ",".join(f"f{k}" for k in range(70_000)) + ",class\n",
            "a table of 70,001 columns needs about 0.6 GB",
        ),
        ("f0,class\0\n1,a\n", "contains NUL characters"),
        ("f0,class\n1,a\n".encode("utf-16"), "is not UTF-8"),
        ("f0,class\n1,a\n2,b\x07\n", r"the label 'b\\x07' contains the character"),
        ("f0,id,class\n1,x" + "x" * 5000 + ",a\n2,y,b\n", "is too long; at most 4,096"),
        ("f" + "9" * 5000 + ",class\n1,a\n", "one label only"),
        ("f" + "9" * 5000 + ",class\n1,a\n2,b\n", "feature name .* is too long"),
        ("f0,٣,class\n1,2,a\n2,3,b", None),
    ],
)
def test_refused_csv(tmp_path: Path, content: str | bytes, message: str | None) -> None:
    if message is None:
        assert len(read(tmp_path / "set", content, "set.csv").ids) == 2
        return
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "set.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=message) as caught:
        cache = tmp_path / "cache"
        open_source(SourceOptions(path=str(tmp_path / "set" / "set.csv")), cache).read(cache)
    assert len(str(caught.value)) < 1500


@pytest.mark.slow
def test_a_row_of_more_than_a_megabyte_is_read(tmp_path: Path) -> None:
    width = 20_000
    names = ",".join(f"f{k}" for k in range(width))
    rows = "\n".join(
        "0.12345678901234567890123456789012345678901234567890123456," * width + name for name in "ab"
    )
    found = read(tmp_path / "set", f"{names},class\n{rows}\n", "set.csv")
    assert found.X is not None
    assert found.X.shape == (2, width)


def test_a_header_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from storage.sources import columns

    monkeypatch.setattr(columns, "LONGEST_LINE", 1000)
    with pytest.raises(SourceError, match="line 1 is not a CSV header: it has more than 1,000 characters"):
        read(tmp_path / "set", "f0," * 10_000, "set.csv")


def test_many_edges_are_read(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("i,j\n" + "0,1\n" * 100_000)
    assert len(read_edges(path, ["a", "b"])[0]) == 100_000


# Label files.


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    for k in range(3):
        Image.new("RGB", (2, 2)).save(folder / f"{k}.png")
    return folder


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"file_name": "0.png", "label": ' + "[" * 100_000 + "\n", "line 1: not JSON .*recursion"),
        ('{"file_name": "0.png", "label": ' + "9" * 5000 + "}\n", "line 1: not JSON .*digits"),
        ('{"file_name": "0.png", "label": "\\ud800"}\n', r"line 1: the label '\\ud800' contains"),
        ('{"file_name": "\\ud800", "label": "a"}\n', r"line 1: the file name '\\ud800' contains"),
        ('{"file_name": "0.png", "label": "a\\u0000b"}\n', r"line 1: the label 'a\\x00b' contains"),
        ('{"file_name": "0.png", "label": "' + "a" * 5000 + '"}\n', "line 1: the label .* is too long"),
        ('{"file_name": "' + "a" * 5000 + '", "label": "a"}\n', "line 1: the file name .* is too long"),
        ("{}\n" * 900_000, "a file of 900,000 lines needs about 0.5 GB"),
        ("[" + "{}," * 100_000 + "{}]\n", r"line 1: '\[.*characters\) found; write one JSON object"),
    ],
)
def test_refused_jsonl(images: Path, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(images, content, "metadata.jsonl")
    assert len(str(caught.value)) < 1000


def test_a_json_record_has_a_bounded_length(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from storage.sources import label_files

    monkeypatch.setattr(label_files, "LONGEST_LINE", 1000)
    with pytest.raises(SourceError, match="line 1 has 30,000 characters; at most 1,000"):
        read(images, "[" * 29_999 + "\n", "metadata.jsonl")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("filename,labels\n" + "a,b\n" * 1_000_000, "a file of 1,000,001 lines needs about 0.6 GB"),
        ("filename,labels\n0.png," + "a" * 200_000, "line 2: field larger than field limit"),
        ("filename,labels\n0.png,a\x1b[31m\n", r"line 2: the label 'a\\x1b\[31m' contains"),
        ("filename,labels\n0.png,a\0\n", "contains NUL"),
        (
            "filename,labels\n0.png,a\n0.png," + "|".join(map(str, range(10_000))) + "\n",
            "is repeated with other",
        ),
    ],
)
def test_refused_label_csv(images: Path, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(images, content, "labels.csv")
    assert len(str(caught.value)) < 1000


def test_lists_of_labels_in_parquet(images: Path) -> None:
    content = table_bytes({"file_name": ["0.png", "1.png", "2.png"], "labels": [["a", "b"], None, ["b"]]})
    found = read(images, content, "metadata.parquet")
    assert found.labels.tolist() == [[1, 1], [-1, -1], [0, 1]]


def test_lists_of_very_many_labels_in_parquet(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL", 10**6)
    offsets = pa.array([0, 10**5, 2 * 10**5, 3 * 10**5], pa.int32())
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3 * 10**5, np.int32)), pa.array(["a"]))
    columns = {"file_name": ["0.png", "1.png", "2.png"], "labels": pa.ListArray.from_arrays(offsets, texts)}
    content = table_bytes(columns, store_schema=False)
    with pytest.raises(SourceError, match=r"3 rows of 2 columns needs about .* are plausible for a file of"):
        read(images, content, "metadata.parquet")


def test_values_are_counted_as_by_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "set.parquet"
    lists = [[1, 2], None, [], [3]] * 50
    columns = {
        "f0": np.arange(200.0),
        "x.y": lists,
        "nested": [[["a"], []]] * 200,
        "struct": [{"é": True}] * 200,
    }
    pq.write_table(pa.table(columns), path, row_group_size=70)
    footer = pq.read_metadata(path)
    expected: Counter[str] = Counter()
    for k in range(footer.num_row_groups):
        for j in range(footer.num_columns):
            chunk = footer.row_group(k).column(j)
            expected[chunk.path_in_schema] += chunk.num_values
    assert count_values(path) == expected
    for content in (
        b"",
        b"PAR1",
        path.read_bytes()[:-9] + b"\xff" * 4 + b"PAR1",
        b"\xff" * 50 + b"\x20\0\0\0PAR1",
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            count_values(path)


# XML label headers.


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<label>" * 50_000, "not well-formed XML"),
        ('<!DOCTYPE l [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><labels>&b;</labels>', "declares XML entities"),
        ('<labels><label name="' + "a" * 10**6 + '"/></labels>', r"names the label 'a{80}'\.\.\. \(1000000"),
        ("<labels>\0</labels>", "contains NUL"),
    ],
)
def test_refused_xml(tmp_path: Path, xml: str, message: str) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "set.xml").write_text(xml)
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path / "set", HEADER + "1,a\n2,b\n")
    assert len(str(caught.value)) < 1000


# Annotation files.


def write_pictures(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (2, 2)).save(folder / name)
    return folder


@pytest.mark.parametrize(
    "content",
    [
        '{"labels": {"' + r"\"" * 50_000,
        '{"labels": {"' + r"\"" * 50_000 + "\\",
        '{"labels"' + " " * 100_000 + '"x"' * 20_000,
        "[" * 100_000,
        '{"images": [' + "{" * 100_000,
    ],
)
def test_the_beginning_of_json_takes_linear_time(tmp_path: Path, content: str) -> None:
    # With a quadratic search each of these takes minutes.
    (tmp_path / "x.json").write_text(content)
    assert outline(tmp_path / "x.json").opening == content[0]


@pytest.mark.parametrize(
    "line",
    ["{space}'0': red{space}x", "{space}x", "- name:{space}x{space}y", "'0':{space}", "-{space}-{space}-"],
)
def test_a_card_takes_linear_time(line: str) -> None:
    text = line.format(space=" " * 100_000)
    card = f"---\n- name: label\n  class_label:\n    names:\n      '7': sea\n{text}\n---\n"
    assert names_in_card(card)["label"]["7"] == "sea"


def test_json_is_refused_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pictures(tmp_path / "set")
    write_json(folder / "coco.json", coco({"a.png": ["sky"], "b.png": ["sea"]}))
    monkeypatch.setenv(limits.LIMIT_VARIABLE, "0.000001")
    monkeypatch.setattr(limits, "SMALL", 100)
    with pytest.raises(SourceError, match=r"coco\.json: a text of .* needs about .*LABELSCAPE_READ_LIMIT"):
        open_source(SourceOptions(path=str(folder)), tmp_path).read(tmp_path)


def test_lists_and_objects_are_counted_before_they_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_pictures(tmp_path / "set")
    (folder / "coco.json").write_text('{"images": [], "annotations": [' + "{}," * 10_000 + "{}]}")
    monkeypatch.setenv(limits.LIMIT_VARIABLE, "0.0003")
    monkeypatch.setattr(limits, "SMALL", 100)
    with pytest.raises(SourceError, match=r"coco\.json: JSON with 10,004 lists and objects needs about"):
        open_source(SourceOptions(path=str(folder)), tmp_path).read(tmp_path)


@pytest.mark.slow
def test_polygons_are_not_kept_in_memory(tmp_path: Path) -> None:
    """`json.loads` of this file needs more than six times its size."""
    content = coco({"a.png": ["sky"], "b.png": ["sea"]})
    polygon = [round(0.37 * k, 2) for k in range(400)]
    content["annotations"] = [{**content["annotations"][0], "segmentation": [polygon]}] * 10_000
    path = write_json(tmp_path / "coco.json", content)
    text, megabytes = peak_of(lambda: read_coco(path))
    assert text == "no refusal"
    assert megabytes < 3.5 * path.stat().st_size / 1e6
