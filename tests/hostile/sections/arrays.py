"""Arrays: sparse matrices in .npz files that lie, explode, contain pickles or are damaged."""

import io
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.hostile.case import REFUSED, SURVIVED, Case, Place, run_until
from tests.hostile.samples import flip, positions

WARM_UP = "ingest"
ANY = f"{REFUSED}|{SURVIVED}"
ROWS, COLUMNS = 6, 4
LABELS = "class\n" + "a\nb\n" * (ROWS // 2)
Content = Callable[[], bytes]
Member = np.ndarray | bytes


def one(
    name: str,
    content: bytes | Content,
    expect: str,
    labels: str | None = LABELS,
    file: str = "t_X.npz",
    **options: Any,
) -> Case:
    """A matrix with its label table."""

    def make(place: Place) -> None:
        place.source.mkdir()
        (place.source / file).write_bytes(content() if callable(content) else content)
        if labels is not None:
            (place.source / "t_labels.csv").write_text(labels, encoding="utf-8")

    command = ("run", f"{{source}}/{file}", *run_until("ingest")[2:])
    return Case(name, make, command, expect=expect, check=not_executed, **options)


def not_executed(place: Place, output: str) -> str | None:
    """No pickle was loaded."""
    return "a pickle was executed" if (place.folder / "owned").exists() else None


class Executed:
    """A pickle that would create a file."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os

        return os.system, ("touch owned",)


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    """The bytes of an array."""
    target = io.BytesIO()
    np.lib.format.write_array(target, array, version)
    return target.getvalue()


def raw_npy(header: str | bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """An array file with any header."""
    text = header.encode() if isinstance(header, str) else header
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + data


def claim(kind: str, shape: str, data: bytes = bytes(16)) -> bytes:
    """An array file that claims a type and a shape."""
    return raw_npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n", data)


def npz(members: dict[str, Member], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of arrays."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, npy(data) if isinstance(data, np.ndarray) else data)
    return target.getvalue()


def parts(**changes: Any) -> dict[str, Member]:
    """Members of a good CSR matrix with changes; None removes one."""
    rng = np.random.default_rng(1)
    good = {
        "indices": np.tile(np.arange(2, dtype=np.int32), ROWS),
        "indptr": np.arange(0, 2 * ROWS + 1, 2, dtype=np.int32),
        "format": np.array(b"csr"),
        "shape": np.array([ROWS, COLUMNS]),
        "data": rng.normal(size=2 * ROWS),
    }
    return {f"{name}.npy": value for name, value in {**good, **changes}.items() if value is not None}


def csr(**changes: Any) -> Content:
    """An archive of a CSR matrix with changes."""
    return lambda: npz(parts(**changes))


def zeros(size: int) -> bytes:
    """An array file of zeros."""
    return claim("<f8", f"({size // 8},)", bytes(size))


def bomb(size: int) -> Content:
    """An archive with a member of zeros, written in portions."""

    def write() -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in parts(data=None).items():
                archive.writestr(name, npy(data) if isinstance(data, np.ndarray) else data)
            with archive.open("data.npy", "w", force_zip64=True) as member:
                member.write(claim("<f8", f"({size // 8},)", b""))
                for _ in range(size >> 24):
                    member.write(bytes(1 << 24))
        return target.getvalue()

    return write


def encrypted() -> bytes:
    """An archive whose members are marked as encrypted."""
    data = bytearray(npz(parts()))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 4)
    return bytes(data)


def other_size(size: int) -> bytes:
    """An archive whose directory claims another size of every member."""
    data = bytearray(npz(parts()))
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + 24 : at + 28] = struct.pack("<I", size)
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(data)


MATRICES: dict[str, tuple[Content, str]] = {
    "good": (csr(), SURVIVED),
    "stored": (lambda: npz(parts(), zipfile.ZIP_STORED), SURVIVED),
    "lzma": (lambda: npz(parts(), zipfile.ZIP_LZMA), ANY),
    "bzip2": (lambda: npz(parts(), zipfile.ZIP_BZIP2), ANY),
    "float32": (csr(data=np.ones(2 * ROWS, np.float32)), SURVIVED),
    "float16": (csr(data=np.ones(2 * ROWS, np.float16)), ANY),
    "long double": (csr(data=np.ones(2 * ROWS, np.longdouble)), ANY),
    "integers": (csr(data=np.ones(2 * ROWS, np.int64)), SURVIVED),
    "booleans": (csr(data=np.ones(2 * ROWS, bool)), SURVIVED),
    "big endian": (csr(data=np.ones(2 * ROWS, ">f8")), ANY),
    "complex": (csr(data=np.ones(2 * ROWS, complex)), REFUSED),
    "strings": (csr(data=np.array(["x"] * 2 * ROWS)), REFUSED),
    "times": (csr(data=np.zeros(2 * ROWS, "M8[s]")), REFUSED),
    "records": (csr(data=np.zeros(2 * ROWS, [("a", "f8")])), REFUSED),
    "objects": (csr(data=np.array([Executed()] * 2 * ROWS, dtype=object)), REFUSED),
    "objects as indices": (csr(indices=np.array([Executed()], dtype=object)), REFUSED),
    "objects as format": (csr(format=np.array(Executed(), dtype=object)), REFUSED),
    "pickle as member": (csr(data=pickle.dumps(Executed())), REFUSED),
    "nan": (csr(data=np.full(2 * ROWS, np.nan)), REFUSED),
    "infinite": (csr(data=np.full(2 * ROWS, np.inf)), REFUSED),
    "too large for 32 bits": (csr(data=np.full(2 * ROWS, 1e300)), REFUSED),
    "64-bit indices": (csr(indices=np.tile(np.arange(2), ROWS)), SURVIVED),
    "float indices": (csr(indices=np.tile(np.arange(2.0), ROWS)), ANY),
    "negative indices": (csr(indices=np.full(2 * ROWS, -1, np.int32)), REFUSED),
    "indices too large": (csr(indices=np.full(2 * ROWS, 99, np.int32)), REFUSED),
    "indices of 2^62": (csr(indices=np.full(2 * ROWS, 1 << 62)), REFUSED),
    "repeated indices": (csr(indices=np.zeros(2 * ROWS, np.int32)), ANY),
    "too few indices": (csr(indices=np.zeros(3, np.int32)), REFUSED),
    "decreasing row starts": (csr(indptr=np.arange(2 * ROWS, -1, -2, dtype=np.int32)), REFUSED),
    "row starts beyond the data": (csr(indptr=np.arange(0, 20 * ROWS + 1, 20, dtype=np.int32)), REFUSED),
    "negative row starts": (csr(indptr=np.full(ROWS + 1, -5, np.int32)), REFUSED),
    "too few row starts": (csr(indptr=np.array([0, 2], np.int32)), REFUSED),
    "shape of zeros": (csr(shape=np.array([0, 0])), REFUSED),
    "no columns": (csr(shape=np.array([ROWS, 0])), REFUSED),
    "negative shape": (csr(shape=np.array([-ROWS, COLUMNS])), REFUSED),
    "shape of one number": (csr(shape=np.array([ROWS])), REFUSED),
    "shape of three numbers": (csr(shape=np.array([ROWS, COLUMNS, 1])), REFUSED),
    "shape of floats": (csr(shape=np.array([float(ROWS), float(COLUMNS)])), ANY),
    "shape of nan": (csr(shape=np.array([np.nan, np.nan])), REFUSED),
    "10^9 rows": (csr(shape=np.array([10**9, COLUMNS])), REFUSED),
    "10^18 rows": (csr(shape=np.array([10**18, COLUMNS])), REFUSED),
    "10^9 columns": (csr(shape=np.array([ROWS, 10**9])), ANY),
    "10^18 columns": (csr(shape=np.array([ROWS, 10**18])), ANY),
    "unknown format": (csr(format=np.array(b"xyz")), REFUSED),
    "format of a module": (csr(format=np.array(b"os.system")), REFUSED),
    "csc": (
        csr(
            format=np.array(b"csc"),
            indptr=np.array([0, 6, 12, 12, 12], np.int32),
            indices=np.tile(np.arange(6, dtype=np.int32), 2),
        ),
        SURVIVED,
    ),
    "coo of 10^9 rows": (
        csr(
            format=np.array(b"coo"),
            row=np.zeros(1, np.int32),
            col=np.zeros(1, np.int32),
            data=np.ones(1),
            shape=np.array([10**9, 4]),
        ),
        REFUSED,
    ),
    "dia of 10^9 rows": (
        csr(
            format=np.array(b"dia"),
            offsets=np.zeros(1, np.int32),
            data=np.ones((1, 4)),
            shape=np.array([10**9, 10**9]),
        ),
        REFUSED,
    ),
    "bsr of one block": (
        csr(
            format=np.array(b"bsr"),
            data=np.ones((1, ROWS, COLUMNS)),
            indices=np.zeros(1, np.int32),
            indptr=np.array([0, 1], np.int32),
        ),
        ANY,
    ),
    "csc of 10^9 rows": (csr(format=np.array(b"csc"), shape=np.array([10**9, ROWS])), REFUSED),
    "dense arrays": (lambda: npz({"X.npy": np.ones((ROWS, COLUMNS))}), ANY),
    "zero-dimensional data": (csr(data=np.array(1.0)), REFUSED),
    "three-dimensional data": (csr(data=np.ones((2, 2, 2))), REFUSED),
    "fortran order": (csr(data=np.asfortranarray(np.ones((2, ROWS)))), REFUSED),
    "data claims 10^12 numbers": (csr(data=claim("<f8", "(1000000000000,)")), REFUSED),
    "data claims 2^63 numbers": (csr(data=claim("<f8", "(9223372036854775808,)")), REFUSED),
    "data claims a negative shape": (csr(data=claim("<f8", "(-1,)")), REFUSED),
    "row starts claim 10^10 numbers": (csr(indptr=claim("<i4", "(10000000000,)")), REFUSED),
    "header of code": (csr(data=raw_npy("__import__('os').system('touch owned')")), REFUSED),
    "header of nested brackets": (csr(data=raw_npy("(" * 30_000)), REFUSED),
    "header of minus signs": (csr(data=raw_npy("-" * 30_000 + "1")), REFUSED),
    "header of 10 MB": (csr(data=raw_npy(" " * 10_000_000, b"", b"\x02\x00")), REFUSED),
    "header without shape": (csr(data=raw_npy("{'descr': '<f8'}\n")), REFUSED),
    "header that is not a table": (csr(data=raw_npy("7\n")), REFUSED),
    "header with a strange type": (csr(data=claim("O", "(1,)")), REFUSED),
    "version 9.9": (csr(data=raw_npy("{}", b"", b"\x09\x09")), REFUSED),
    "no magic": (csr(data=b"hello"), REFUSED),
    "empty member": (csr(data=b""), REFUSED),
    "no data": (csr(data=None), REFUSED),
    "no row starts": (csr(indptr=None), REFUSED),
    "no shape": (csr(shape=None), REFUSED),
    "no format": (csr(format=None), REFUSED),
    "no members": (lambda: npz({}), REFUSED),
    "extra members": (csr(extra=np.ones(5)), SURVIVED),
    "member with a path upward": (lambda: npz({"../../owned.npy": np.ones(3), **parts()}), ANY),
    "10,000 members": (lambda: npz({**parts(), **{f"x{k}.npy": b"" for k in range(10_000)}}), ANY),
    "2 GB of zeros": (bomb(2 << 30), REFUSED),
    "400 MB of zeros": (bomb(400 << 20), REFUSED),
    "encrypted": (encrypted, REFUSED),
    "directory claims 0 bytes": (lambda: other_size(0), REFUSED),
    "directory claims 4 GB": (lambda: other_size(0xFFFFFFFE), ANY),
    "text": (lambda: b"hello\n", REFUSED),
    "empty file": (lambda: b"", REFUSED),
    "pickle": (lambda: pickle.dumps(Executed()), REFUSED),
    "npy named npz": (lambda: npy(np.ones((ROWS, COLUMNS))), REFUSED),
}
TABLES: dict[str, tuple[str | None, str]] = {
    "missing": (None, REFUSED),
    "empty": ("", REFUSED),
    "too short": ("class\na\nb\n", REFUSED),
    "too long": (LABELS + "a\n", REFUSED),
    "of one column": ("kind\n" + "a\nb\n" * 3, SURVIVED),
    "without class": ("kind,size\n" + "a,1\nb,2\n" * 3, REFUSED),
    "one class": ("class\n" + "a\n" * 6, REFUSED),
    "label columns": ("label:a,label:b\n" + "1,0\n0,1\n" * 3, SURVIVED),
    "labels of 2": ("label:a,label:b\n" + "1,2\n0,1\n" * 3, REFUSED),
    "repeated ids": ("id,class\n" + "x,a\nx,b\n" * 3, REFUSED),
    "escapes": ("class\n" + "\x1b[2J\nb\n" * 3, REFUSED),
}
FILES: dict[str, bytes | Content] = {
    "t.npy": lambda: npy(np.ones((ROWS, COLUMNS))),
    "objects.npy": lambda: npy(np.array([Executed()], dtype=object)),
    "claim.npy": lambda: claim("<f8", "(1000000000000, 4)"),
    "zero.npy": lambda: npy(np.ones((0, 4))),
    "cut.npy": lambda: npy(np.ones((ROWS, COLUMNS)))[:-8],
    "text.npy": b"hello",
    "empty.npy": b"",
}


def damaged() -> Iterator[Case]:
    """A good archive cut and with one byte changed."""
    data = npz(parts(), zipfile.ZIP_STORED)
    for percent in (1, 10, 50, 90, 99):
        yield one(f"cut to {percent} %", data[: len(data) * percent // 100], REFUSED)
    for position in positions(11, len(data), 25):
        yield one(f"flipped at {position}", flip(data, position, 0xFF), ANY)


def cases() -> list[Case]:
    """The cases of this section."""
    return [
        *(one(f"matrix: {title}", content, expect) for title, (content, expect) in MATRICES.items()),
        *(one(f"labels: {title}", csr(), expect, labels) for title, (labels, expect) in TABLES.items()),
        *(
            one(f"file {name}", content, ANY if name == "t.npy" else REFUSED, file=name)
            for name, content in FILES.items()
        ),
        *damaged(),
    ]
