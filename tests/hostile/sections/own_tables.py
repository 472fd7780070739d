"""Tables with any column names, columns of vectors, Feather files, dense arrays and `table:PATH`."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, run_until, settings
from tests.hostile.samples import flip, positions, write_table
from tests.hostile.sections.arrays import Executed, claim, not_executed, npy, npz, raw_npy, zeros

WARM_UP = "ingest"
ANY = f"{REFUSED}|{SURVIVED}"
ROWS = 12
KINDS = list("ab") * (ROWS // 2)
VECTORS = [[float(k), float(k % 3)] for k in range(ROWS)]
Content = Callable[[], bytes]
HUGE = 1 << 40


def one(name: str, content: bytes | Content, expect: str, file: str, *more: str, **options: Any) -> Case:
    """A file with its labels, or beside a table of labels."""

    def make(place: Place) -> None:
        place.source.mkdir()
        (place.source / file).write_bytes(content() if callable(content) else content)
        if file.endswith((".npy", ".npz")):
            (place.source / "labels.csv").write_text("kind\n" + "\n".join(KINDS) + "\n")

    command = ("run", f"{{source}}/{file}", *run_until("ingest")[2:], *more)
    return Case(name, make, command, expect=expect, check=not_executed, **options)


def columns(**changes: Any) -> dict[str, Any]:
    """Columns of a good table with changes; None removes a column."""
    good = {"width": [k / 7 for k in range(ROWS)], "clip": VECTORS, "target": KINDS}
    return {name: values for name, values in {**good, **changes}.items() if values is not None}


def feather(content: dict[str, Any], compression: str | None = "lz4") -> bytes:
    """A Feather file."""
    import pyarrow as pa
    from pyarrow import feather

    target = io.BytesIO()
    feather.write_feather(pa.table(content), target, compression=compression or "uncompressed")
    return target.getvalue()


def stream(content: dict[str, Any]) -> bytes:
    """An Arrow stream without the frame of a file."""
    import pyarrow as pa

    table, target = pa.table(content), io.BytesIO()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    return target.getvalue()


def bomb() -> bytes:
    """A small file of 4 GB of zeros."""
    import pyarrow as pa

    portion = pa.record_batch({"x": np.zeros(1 << 24), "target": pa.nulls(1 << 24, pa.string())})
    target = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(target, portion.schema, options=options) as writer:
        for _ in range(32):
            writer.write_batch(portion)
    return target.getvalue()


def lying(size: int) -> bytes:
    """A file whose compressed buffers claim another size."""
    data = bytearray(feather({"x": [0.5] * 4096, "target": ["a", "b"] * 2048}))
    old = (4096 * 8).to_bytes(8, "little")
    at = data.find(old)
    while at >= 0:
        data[at : at + 8] = size.to_bytes(8, "little", signed=True)
        at = data.find(old, at + 8)
    return bytes(data)


FEATHER: dict[str, tuple[bytes | Content, str]] = {
    "good": (partial(feather, columns()), SURVIVED),
    "zstd": (partial(feather, columns(), "zstd"), SURVIVED),
    "uncompressed": (partial(feather, columns(), None), SURVIVED),
    "stream": (partial(stream, columns()), SURVIVED),
    "first version": (b"FEA1" + bytes(200) + b"FEA1", REFUSED),
    "only magic": (b"ARROW1\0\0", REFUSED),
    "empty": (b"", REFUSED),
    "text": (b"hello\n", REFUSED),
    "claims 1 TB": (partial(lying, HUGE), REFUSED),
    "claims nothing": (partial(lying, 0), REFUSED),
    "claims a negative size": (partial(lying, -7), REFUSED),
    "4 GB of zeros": (bomb, REFUSED),
    "no columns": (partial(feather, {}), REFUSED),
    "no rows": (partial(feather, {"x": np.zeros(0), "target": np.zeros(0, dtype="U1")}), REFUSED),
    "pickle": (lambda: __import__("pickle").dumps(Executed()), REFUSED),
}
TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "vectors of two lengths": (columns(clip=[*VECTORS[:-1], [1.0]]), REFUSED),
    "vectors of no length": (columns(clip=[[]] * ROWS), ANY),
    "no vector": (columns(clip=[*VECTORS[:-1], None]), REFUSED),
    "vector of nan": (columns(clip=[*VECTORS[:-1], [1.0, float("nan")]]), REFUSED),
    "vector of infinity": (columns(clip=[*VECTORS[:-1], [1.0, float("inf")]]), REFUSED),
    "vector with a gap": (columns(clip=[*VECTORS[:-1], [1.0, None]]), REFUSED),
    "vector of 1e300": (columns(clip=[*VECTORS[:-1], [1.0, 1e300]]), REFUSED),
    "zero vectors": (columns(clip=[[0.0, 0.0]] * ROWS), SURVIVED),
    "vectors of texts": (columns(clip=[["x", "y"]] * ROWS), ANY),
    "vectors of vectors": (columns(clip=[[[1.0]]] * ROWS), ANY),
    "columns with escapes": (columns(**{"\x1b[2J": [1] * ROWS, "\u202e": ["t"] * ROWS}), ANY),
    "vectors with escapes": (columns(clip=None, **{"\x1b[2J": VECTORS}), ANY),
    "labels with escapes": (columns(target=["\x1b[2J", "b"] * (ROWS // 2)), REFUSED),
    "column without name": (columns(clip=None, **{"": list(range(ROWS))}), SURVIVED),
    "quantity as target": (columns(target=[k + 0.5 for k in range(ROWS)] * 1), ANY),
    "lists of labels": (columns(target=[["a", "b"], ["a"]] * (ROWS // 2)), SURVIVED),
    "nested labels": (columns(target=[[["a"]], [["b"]]] * (ROWS // 2)), REFUSED),
    "names like features of a model": (columns(clip=None, **{"a=b": KINDS, "c[0]": VECTORS}), ANY),
    "2,000 columns": (columns(clip=None, **{f"x{k}": [k, 1] * (ROWS // 2) for k in range(2000)}), SURVIVED),
}
SETTINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "pattern of brackets": (("source.features=[", "source.labels=target"), REFUSED),
    "pattern of stars": (("source.features=" + "*" * 200 + "x",), REFUSED),
    "every column is a label": (("source.labels=*",), REFUSED),
    "every column is ignored": (("source.ignore=*",), REFUSED),
    "the label is the id": (("source.id=target",), REFUSED),
    "the vector is the id": (("source.id=clip",), ANY),
    "the vector is the label": (("source.labels=clip",), ANY),
    "the split is a number": (("source.split=width",), ANY),
    "columns with escapes": (("source.features=\x1b[2J",), REFUSED),
    "a list of 3,000 columns": (("source.ignore=" + ",".join(f"x{k}" for k in range(800)),), REFUSED),
}
NPY: dict[str, tuple[bytes | Content, str]] = {
    "good": (lambda: npy(np.ones((ROWS, 4))), SURVIVED),
    "fortran order": (lambda: npy(np.asfortranarray(np.ones((ROWS, 4)))), SURVIVED),
    "version 3": (lambda: npy(np.ones((ROWS, 4)), (3, 0)), ANY),
    "big endian": (lambda: npy(np.ones((ROWS, 4), ">f8")), SURVIVED),
    "other rows": (lambda: npy(np.ones((ROWS + 1, 4))), REFUSED),
    "no columns": (lambda: npy(np.ones((ROWS, 0))), REFUSED),
    "one dimension": (lambda: npy(np.ones(ROWS)), REFUSED),
    "no dimension": (lambda: npy(np.array(1.0)), REFUSED),
    "records": (lambda: npy(np.zeros((ROWS, 2), [("a", "f8")])), REFUSED),
    "texts": (lambda: npy(np.full((ROWS, 2), "x")), REFUSED),
    "times": (lambda: npy(np.zeros((ROWS, 2), "M8[s]")), REFUSED),
    "objects": (lambda: npy(np.full((ROWS, 2), Executed(), dtype=object)), REFUSED),
    "claims 10^12 numbers": (lambda: claim("<f8", "(12, 100000000000)"), REFUSED),
    "claims 2^63 rows": (lambda: claim("<f8", "(9223372036854775808, 4)"), REFUSED),
    "claims no bytes per number": (lambda: claim("V0", f"({ROWS}, 1000000000000)"), REFUSED),
    "claims a negative shape": (lambda: claim("<f8", "(-1, 4)"), REFUSED),
    "header of code": (lambda: raw_npy("__import__('os').system('touch owned')"), REFUSED),
    "header of an open text": (lambda: raw_npy("{'descr': '''<f8"), REFUSED),
    "header of nested brackets": (lambda: raw_npy("(" * 30_000), REFUSED),
    "text": (b"hello", REFUSED),
    "cut": (lambda: npy(np.ones((ROWS, 4)))[:-8], REFUSED),
}
NPZ: dict[str, tuple[Content, str]] = {
    "good": (lambda: npz({"X.npy": np.ones((ROWS, 4))}), SURVIVED),
    "two blocks": (lambda: npz({"a.npy": np.ones((ROWS, 4)), "b.npy": np.ones((ROWS, 2))}), SURVIVED),
    "blocks of other rows": (lambda: npz({"a.npy": np.ones((ROWS, 4)), "b.npy": np.ones((9, 2))}), REFUSED),
    "labels of objects": (
        lambda: npz({"X.npy": np.ones((ROWS, 4)), "y.npy": np.full(ROWS, Executed(), dtype=object)}),
        REFUSED,
    ),
    "ids with escapes": (
        lambda: npz({"X.npy": np.ones((ROWS, 4)), "ids.npy": np.array(["\x1b[2J"] * ROWS)}),
        REFUSED,
    ),
    "pickle as member": (lambda: npz({"X.npy": __import__("pickle").dumps(Executed())}), REFUSED),
    "400 MB of zeros": (
        lambda: npz({"X.npy": np.ones((ROWS, 4)), "y.npy": zeros(400 << 20), "Z.npy": zeros(300 << 20)}),
        REFUSED,
    ),
    "name of a block with escapes": (
        lambda: npz({"\x1b[2J.npy": np.ones((ROWS, 4)), "b.npy": np.ones((ROWS, 2))}),
        ANY,
    ),
    "no members": (lambda: npz({}), REFUSED),
    "splits": (lambda: npz(splits()), SURVIVED),
    "splits of texts": (lambda: npz(splits(x_train=np.full((ROWS, 4), "a"))), REFUSED),
    "splits of other shapes": (lambda: npz(splits(x_test=np.ones((3, 5)))), REFUSED),
    "splits of single numbers": (lambda: npz(splits(x_train=np.array(3.0), x_test=np.array(3.0))), REFUSED),
    "splits without features": (
        lambda: npz(splits(x_train=np.ones((ROWS, 0)), x_test=np.ones((3, 0)))),
        REFUSED,
    ),
    "splits with NaN": (lambda: npz(splits(x_test=np.full((3, 4), np.nan))), REFUSED),
    "a split without labels": (lambda: npz(splits(y_test=None)), SURVIVED),
    "splits without labels": (lambda: npz(splits(y_train=None, y_test=None)), REFUSED),
    "too few labels of a split": (lambda: npz(splits(y_train=np.ones(2))), REFUSED),
    "labels of splits of other types": (lambda: npz(splits(y_test=np.full(3, "a"))), REFUSED),
    "labels of splits of objects": (
        lambda: npz(splits(y_train=np.full(ROWS, Executed(), dtype=object))),
        REFUSED,
    ),
    "a split of 700 MB of zeros": (lambda: npz(splits(x_test=zeros(700 << 20))), REFUSED),
    "an empty split": (lambda: npz(splits(x_test=np.ones((0, 4)), y_test=np.ones(0))), SURVIVED),
}


def splits(**changes: Any) -> dict[str, Any]:
    """Arrays by split as Keras has them, with changes; None removes an array."""
    good = {
        "x_train": np.ones((ROWS, 4)),
        "y_train": np.arange(ROWS) % 2,
        "x_test": np.ones((3, 4)),
        "y_test": np.arange(3) % 2,
    }
    return {f"{name}.npy": array for name, array in {**good, **changes}.items() if array is not None}


def damaged() -> Iterator[Case]:
    """Files cut and with one byte changed."""
    files = {"t.feather": feather(columns()), "t.npy": npy(np.ones((ROWS, 4)))}
    for file, data in files.items():
        for percent in (1, 10, 50, 90, 99):
            yield one(f"{file} cut to {percent} %", data[: len(data) * percent // 100], ANY, file)
        for position in positions(13, len(data), 25):
            yield one(f"{file} flipped at {position}", flip(data, position, 0xFF), ANY, file)


def block(name: str, content: bytes | Content, expect: str, file: str = "e.csv") -> Case:
    """A table of features beside the features of a collection."""

    def make(place: Place) -> None:
        write_table(place.source)
        (place.folder / file).write_bytes(content() if callable(content) else content)

    extractors = settings(f"features.extractors=['given', 'table:{{here}}/{file}']")
    command = (*run_until("features"), *extractors)
    return Case(f"table:PATH {name}", make, command, expect=expect, check=not_executed)


GOOD_BLOCK = "id,x\n" + "".join(f"{k},{k / 3}\n" for k in range(ROWS))
BLOCKS: dict[str, tuple[bytes, str]] = {
    "good": (GOOD_BLOCK.encode(), SURVIVED),
    "without ids": (GOOD_BLOCK.replace("id,", "w,").encode(), REFUSED),
    "ids twice": ((GOOD_BLOCK + "3,1\n").encode(), REFUSED),
    "ids missing": (GOOD_BLOCK[:20].encode(), REFUSED),
    "ids with escapes": (GOOD_BLOCK.replace("\n1,", "\n\x1b[2J,").encode(), REFUSED),
    "other ids": (GOOD_BLOCK.replace("\n", "\nz").encode(), REFUSED),
    "missing values": (GOOD_BLOCK.replace("0.0", "").encode(), REFUSED),
    "texts": (GOOD_BLOCK.replace("0.0", "x").encode(), ANY),
    "empty": (b"", REFUSED),
    "binary": (bytes(range(256)) * 9, REFUSED),
}


def cases() -> list[Case]:
    """The cases of this section."""
    return [
        *(one(f"feather: {title}", made, expect, "t.feather") for title, (made, expect) in FEATHER.items()),
        *(
            one(f"table: {title}", partial(feather, made), expect, "t.arrow")
            for title, (made, expect) in TABLES.items()
        ),
        *(
            one(f"settings: {title}", partial(feather, columns()), expect, "t.feather", *settings(*given))
            for title, (given, expect) in SETTINGS.items()
        ),
        *(one(f"npy: {title}", made, expect, "t.npy") for title, (made, expect) in NPY.items()),
        *(one(f"npz: {title}", made, expect, "t.npz") for title, (made, expect) in NPZ.items()),
        *(block(title, made, expect) for title, (made, expect) in BLOCKS.items()),
        *damaged(),
    ]
