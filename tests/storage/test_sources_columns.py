"""Tables with the column names that people give them: recognition, settings, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from storage.errors import SourceError
from storage.sources import Collection, SourceOptions, open_source

N = 60
RNG = np.random.default_rng(3)
KINDS = np.array(["cat", "dog", "car"])[np.arange(N) % 3]
CLIP = RNG.normal(size=(N, 6)).astype(np.float32)


def write(path: Path, frame: pd.DataFrame) -> Path:
    """Write a table as pandas users do."""
    if path.suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


def read(path: Path, **options: object) -> Collection:
    cache = path.parent / "cache"
    source = open_source(SourceOptions(path=str(path), **options), cache)  # type: ignore[arg-type]
    found = source.read(cache)
    assert source.part_names == tuple(part.name for part in found.parts)
    return found


def messages(found: Collection) -> str:
    return "\n".join(note.message for note in found.notes)


@pytest.fixture(params=[".csv", ".tsv", ".parquet", ".feather"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def flowers() -> pd.DataFrame:
    return pd.DataFrame(
        {"sepal length (cm)": RNG.normal(size=N), "petal width (cm)": RNG.normal(size=N), "target": KINDS}
    )


def passengers() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "PassengerId": np.arange(1, N + 1),
            "Survived": np.arange(N) % 2,
            "Name": [f"Mr. {k}" for k in range(N)],
            "Sex": np.where(np.arange(N) % 4, "male", "female"),
            "Age": np.where(np.arange(N) % 10, RNG.normal(size=N), np.nan),
            "Fare": RNG.normal(size=N),
            "Alone": np.arange(N) % 5 == 0,
            "Ship": 7,
            "When": pd.date_range("1912-04-10", periods=N),
        }
    )


@pytest.mark.parametrize("name", ["target", "class", "label", "labels", "y", "Target", "Label"])
def test_the_usual_names_of_classes(tmp_path: Path, suffix: str, name: str) -> None:
    found = read(write(tmp_path / f"t{suffix}", flowers().rename(columns={"target": name})))
    assert found.feature_names == ["sepal length (cm)", "petal width (cm)"]
    assert found.label_names == ["car", "cat", "dog"]
    assert found.single_label
    assert found.recognized == {"labels": f"column '{name}'"}
    assert not found.notes


def test_all_formats_give_the_same(tmp_path: Path) -> None:
    frame = flowers()
    found = [read(write(tmp_path / f"t{end}", frame)) for end in (".csv", ".tsv", ".parquet", ".feather")]
    for one in found[1:]:
        assert one.digests == found[0].digests
        assert np.array_equal(one.labels, found[0].labels)


def test_integer_classes(tmp_path: Path, suffix: str) -> None:
    frame = flowers().assign(target=np.arange(N) % 12)
    assert read(write(tmp_path / f"t{suffix}", frame)).label_names == [str(k) for k in range(12)]


def test_a_cell_with_the_separator_has_several_labels(tmp_path: Path, suffix: str) -> None:
    frame = flowers().assign(target=["a|b", "a", "b | c", ""] * (N // 4))
    found = read(write(tmp_path / f"t{suffix}", frame))
    assert not found.single_label
    assert found.label_names == ["a", "b", "c"]
    assert found.labels[:4].tolist() == [[1, 1, 0], [1, 0, 0], [0, 1, 1], [-1, -1, -1]]
    other = read(
        write(tmp_path / f"s{suffix}", frame.assign(target=["a;b", "a"] * (N // 2))), label_separator=";"
    )
    assert other.label_names == ["a", "b"]


@pytest.mark.parametrize("name", ["tags", "labels", "topics"])
def test_a_list_of_texts_is_the_labels(tmp_path: Path, name: str) -> None:
    frame = flowers().drop(columns="target").assign(**{name: [["a", "b"], ["b"], []] * (N // 3)})
    found = read(write(tmp_path / "t.parquet", frame))
    assert found.label_names == ["a", "b"]
    assert found.labels[:3].tolist() == [[1, 1], [0, 1], [0, 0]]


def test_columns_of_0_and_1_are_labels_if_the_user_names_them(tmp_path: Path, suffix: str) -> None:
    frame = flowers().drop(columns="target").assign(sky=np.arange(N) % 2, sea=np.arange(N) % 3 == 0)
    path = write(tmp_path / f"t{suffix}", frame)
    with pytest.raises(SourceError, match=r"--set source\.labels=sea"):
        read(path)
    found = read(path, labels="sky,sea")
    assert found.label_names == ["sky", "sea"]
    assert found.labels[:4].tolist() == [[0, 1], [1, 0], [0, 0], [1, 1]]
    assert found.feature_names == ["sepal length (cm)", "petal width (cm)"]
    assert read(path, labels="s[ke][ya]").label_names == ["sky", "sea"]


def test_a_mixed_table(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"t{suffix}", passengers())
    found = read(path, labels="Survived", allow_missing=True)
    assert found.ids[:2] == ["1", "2"]
    assert found.feature_names == ["Age", "Fare", "Alone"]
    assert found.parts[0].allows_missing
    text = messages(found)
    assert "2 columns contain text and are not used; --set source.categorical=onehot" in text
    assert "1 column contains dates or times and is not used" in text
    assert "1 column has the same value in every row and is not used: Ship" in text
    encoded = read(path, labels="Survived", allow_missing=True, categorical="onehot")
    assert encoded.feature_names == ["Age", "Fare", "Alone", "Sex=female", "Sex=male"]
    assert np.asarray(encoded.X)[:2, 3:].tolist() == [[1, 0], [0, 1]]
    assert "column 'Name' is not encoded: 60 different texts in 60 rows" in messages(encoded)


def test_missing_values_are_counted_and_the_settings_named(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"t{suffix}", passengers())
    with pytest.raises(SourceError) as caught:
        read(path, labels="Survived")
    text = str(caught.value)
    assert "6 missing values in 1 of 3 features and 6 of 60 rows: row 1, column 'Age'; row 11" in text
    assert "row 41, column 'Age' and others. " in text
    assert "--set features.fill=median" in text
    assert "--set source.ignore=Age" in text
    assert read(path, labels="Survived", ignore=("Age",)).feature_names == ["Fare", "Alone"]


def test_nullable_integers_and_booleans_are_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3, 4], dtype="Int64"),
            "b": pd.array([True, False, None, True], dtype="boolean"),
            "y": list("uvuv"),
        }
    )
    for end in (".parquet", ".feather", ".csv"):
        X = np.asarray(read(write(tmp_path / f"t{end}", frame), allow_missing=True).X)
        assert np.array_equal(X, [[1, 1], [np.nan, 0], [3, np.nan], [4, 1]], equal_nan=True)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "row", "customer_id"])
def test_row_numbers_are_not_features(tmp_path: Path, name: str) -> None:
    frame = flowers()
    frame.insert(0, name, np.arange(N))
    found = read(write(tmp_path / "t.csv", frame))
    assert found.feature_names == ["sepal length (cm)", "petal width (cm)"]
    assert ("1 column looks like row numbers" in messages(found)) == (name != "customer_id")
    chosen = read(write(tmp_path / "t.csv", frame), features=(name, "sepal*") if name else ("*length*", "*"))
    assert name in (chosen.feature_names or [])


def test_ids_are_recognized_by_name_and_must_be_unique_if_named(tmp_path: Path, suffix: str) -> None:
    frame = flowers().assign(filename=[f"{k}.jpg" for k in range(N)], store_id=np.arange(N) % 7)
    path = write(tmp_path / f"t{suffix}", frame)
    found = read(path)
    assert found.ids[1] == "1.jpg"
    assert found.recognized["id"] == "column 'filename'"
    assert "store_id" in (found.feature_names or [])
    assert read(path, id="none").ids[1] == "1"
    with pytest.raises(
        SourceError, match=r"row 8: the id '0' is also that of row 1; 7 ids are repeated: 0, 1"
    ):
        read(path, id="store_id")
    twice = write(tmp_path / f"u{suffix}", frame.assign(filename="same.jpg"))
    assert "column 'filename' is not used as id: row 2" in messages(read(twice))


def test_the_split_is_recognized_by_its_words(tmp_path: Path, suffix: str) -> None:
    words = ["train", "test"] * (N // 2)
    found = read(write(tmp_path / f"t{suffix}", flowers().assign(partition=words)))
    assert found.split == words
    odd = read(write(tmp_path / f"u{suffix}", flowers().assign(fold=["north", "south"] * (N // 2))))
    assert odd.split is None
    assert "column 'fold' is not used as split: it contains 'north', 'south'" in messages(odd)


def test_numbers_that_are_quantities_are_no_classes(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(SourceError, match=r"column 'target' has 60 different numbers.*Group the values"):
        read(write(tmp_path / f"t{suffix}", flowers().assign(target=RNG.normal(size=N))))
    with pytest.raises(SourceError, match=r"different numbers.*source\.labels"):
        read(write(tmp_path / f"t{suffix}", flowers().assign(target=np.arange(N))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "taget"}, r"no column 'taget' for source\.labels.*Did you mean 'target'"),
        ({"features": ("petal",)}, r"no column 'petal' for source\.features"),
        ({"features": ("color",)}, r"'color' contains text.*source\.categorical=onehot"),
        ({"ignore": ("x*",)}, r"no column 'x\*' for source\.ignore"),
        ({"id": "key"}, r"no column 'key' for source\.id"),
        ({"split": "part"}, r"no column 'part' for source\.split"),
        ({"labels": "color,target"}, "column 'color' does not contain 0 and 1"),
        ({"ignore": ("*width*", "*length*")}, r"no feature columns.*source\.features"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    tmp_path: Path, suffix: str, options: dict[str, object], message: str
) -> None:
    frame = flowers().assign(color=np.where(np.arange(N) % 2, "red", "blue"))
    with pytest.raises(SourceError, match=message):
        read(write(tmp_path / f"t{suffix}", frame), **options)


def test_features_by_pattern_and_in_order(tmp_path: Path, suffix: str) -> None:
    frame = flowers().assign(f0=1.0, fold=np.arange(N) % 5)
    path = write(tmp_path / f"t{suffix}", frame)
    assert read(path).feature_names == ["f0"], "the own form of labelscape"
    assert read(path, features=("*cm*", "fold")).feature_names == [*frame.columns[:2], "fold"]


# Embeddings.


def embedded(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(
        {"image_id": [f"i{k}" for k in range(N)], "clip": list(CLIP), "label": KINDS, **columns}
    )


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("end", [".parquet", ".feather"])
def test_a_column_of_vectors(tmp_path: Path, end: str, fixed: bool) -> None:
    table = pa.Table.from_pandas(embedded())
    if fixed:
        column = pa.FixedSizeListArray.from_arrays(pa.array(CLIP.ravel()), 6)
        table = table.set_column(1, "clip", column)
    path = tmp_path / f"t{end}"
    if end == ".parquet":
        pq.write_table(table, path, row_group_size=7)
    else:
        pa.feather.write_feather(table, path, chunksize=7)
    found = read(path)
    assert [part.name for part in found.parts] == ["given"]
    assert np.array_equal(np.asarray(found.X), CLIP)
    assert found.feature_names == [f"clip[{k}]" for k in range(6)]
    assert found.ids[2] == "i2"


def test_several_columns_of_vectors_are_several_blocks(tmp_path: Path) -> None:
    frame = embedded(dino=list(CLIP[:, :3]), width=np.arange(N), height=RNG.normal(size=N))
    found = read(write(tmp_path / "t.parquet", frame))
    assert [(part.name, part.X.shape) for part in found.parts if part.X is not None] == [
        ("clip", (N, 6)),
        ("dino", (N, 3)),
    ]
    assert "2 columns contain numbers beside embeddings and are not used" in messages(found)
    chosen = read(write(tmp_path / "t.parquet", frame), features=("dino", "height"))
    assert [part.name for part in chosen.parts] == ["columns", "dino"]


def test_vectors_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    def refused(vectors: list, **options: object) -> str:
        with pytest.raises(SourceError) as caught:
            read(write(tmp_path / "t.parquet", embedded(clip=vectors)), **options)
        return str(caught.value)

    vectors: list = list(CLIP.astype(float).tolist())
    short = [row[:-1] if k in (2, 4, 5, 6, 7, 9) else row for k, row in enumerate(vectors)]
    assert (
        "6 of 60 vectors have another length than 6: rows 3 (5), 5 (5), 6 (5), 7 (5), 8 (5), ..."
        in refused(short)
    )
    gone = [None if k in (1, 3) else row for k, row in enumerate(vectors)]
    text = refused(gone)
    assert "2 of 60 vectors have no vector: rows 2, 4." in text
    assert "features.fill" in text
    holes = [[*row[:-1], np.nan] if k == 8 else row for k, row in enumerate(vectors)]
    assert "1 of 60 vectors contain missing values: rows 9." in refused(holes)
    wide = [[*row[:-1], np.inf] if k == 8 else row for k, row in enumerate(vectors)]
    assert "1 of 60 vectors contain numbers that are not finite" in refused(wide)
    found = read(write(tmp_path / "t.parquet", embedded(clip=gone)), allow_missing=True)
    assert np.isnan(np.asarray(found.X)[[1, 3]]).all()
    assert np.isfinite(np.asarray(found.X)[[0, 2]]).all()


def test_a_missing_vector_of_fixed_size(tmp_path: Path) -> None:
    rows = [None if k in (0, 4) else row for k, row in enumerate(CLIP.tolist())]
    table = pa.table({"clip": pa.array(rows, pa.list_(pa.float32(), 6)), "label": KINDS})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=r"fixed size in which some are missing.*Write the column as lists"):
        read(tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    with pytest.raises(SourceError, match="2 of 60 vectors have no vector: rows 1, 5"):
        read(tmp_path / "t.feather")
    X = np.asarray(read(tmp_path / "t.feather", allow_missing=True).X)
    assert np.isnan(X[[0, 4]]).all()
    assert np.array_equal(X[[1, 2, 3]], CLIP[[1, 2, 3]])


def test_zero_vectors_are_noted(tmp_path: Path) -> None:
    zeros = [row * 0 if k in (3, 8) else row for k, row in enumerate(CLIP)]
    text = messages(read(write(tmp_path / "t.parquet", embedded(clip=zeros))))
    assert "column 'clip': 2 of 60 vectors are zero (rows 4, 9); they have no direction" in text


# Labels in another file.


def test_labels_of_another_table_are_joined_by_id(tmp_path: Path, suffix: str) -> None:
    frame = flowers().drop(columns="target").assign(id=[f"i{k}" for k in range(N)])
    path = write(tmp_path / f"t{suffix}", frame)
    order = RNG.permutation(N)[:-4]
    labels = pd.DataFrame({"id": [f"i{k}" for k in order] + ["x"], "kind": [*KINDS[order], "cat"]})
    labels.to_csv(tmp_path / "kinds.csv", index=False)
    found = read(path, labels="kinds.csv")
    names = np.array([*found.label_names, ""])
    given = [k in order for k in range(N)]
    assert (found.labels[:, 0] >= 0).tolist() == given
    assert (names[found.labels.argmax(axis=1)] == KINDS)[given].all()
    assert "4 items have no entry and are unlabeled: i" in messages(found)
    assert "1 entry is not in" in messages(found)
    with pytest.raises(SourceError, match="strict"):
        read(path, labels="kinds.csv", strict=True)
    pd.DataFrame({"kind": KINDS[:-1]}).to_csv(tmp_path / "kinds.csv", index=False)
    with pytest.raises(SourceError, match=r"has 60 rows, .*kinds\.csv has 59"):
        read(path, labels="kinds.csv")


# Annotation: the columns of a model are found by name.


def test_without_labels_neither_labels_nor_split_are_read(tmp_path: Path, suffix: str) -> None:
    frame = flowers().assign(split="train", sky=1.5)
    found = read(write(tmp_path / f"t{suffix}", frame), labeled=False)
    assert found.split is None
    assert "target" not in (found.feature_names or [])
    named = read(write(tmp_path / f"t{suffix}", frame), labeled=False, labels="sepal*")
    assert named.feature_names == ["petal width (cm)"], "labels are no features"


def test_a_question_mark_is_a_missing_value(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,y\n1,a\n?,b\n3,a\n")
    assert np.isnan(np.asarray(read(tmp_path / "t.csv", allow_missing=True).X)[1, 0])


def test_the_columns_that_a_model_wants(tmp_path: Path, suffix: str) -> None:
    frame = passengers().drop(columns=["Survived", "Age"]).assign(Ship=7)
    frame.loc[3, "Sex"] = "other"
    path = write(tmp_path / f"t{suffix}", frame)
    wanted = ("Fare", "Ship", "Sex=female", "Sex=male")
    found = read(path, labeled=False, wanted=wanted)
    assert found.feature_names == list(wanted)
    assert np.asarray(found.X)[3, 2:].tolist() == [0, 0]
    assert (
        "column 'Sex': 1 row has a value that the model does not know, encoded as zeros: 'other'"
        in messages(found)
    )
    frame = embedded(dino=list(CLIP[:, :3])).drop(columns="label")
    only = read(
        write(tmp_path / "e.parquet", frame), labeled=False, wanted=tuple(f"dino[{k}]" for k in range(3))
    )
    assert [part.name for part in only.parts] == ["given"]
