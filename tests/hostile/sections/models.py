"""Model files that were swapped, damaged or forged since they were tracked; `annotate` must not use them."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from storage.tracking.models import LABELED_DIGEST, LABELED_FILE
from tests.hostile.case import REFUSED, SURVIVED, Case, Place
from tests.hostile.samples import encode, flip, picture
from tests.hostile.sections.arrays import Executed, claim, npy
from tests.hostile.templates import copy_model_home, train_model

ANY = f"{REFUSED}|{SURVIVED}"
ANNOTATE = ("annotate", "{source}", "--out", "{out}")
Change = Callable[[bytes], bytes]


def files(home: Path) -> list[Path]:
    """The tracked model files."""
    return sorted(home.glob("mlartifacts/**/model.skops"))


def new_items(place: Place) -> None:
    """Two new pictures to annotate, and a home with a model."""
    copy_model_home(place)
    place.source.mkdir()
    for number in range(2):
        (place.source / f"n{number}.png").write_bytes(encode(picture(number), "PNG"))


def one(name: str, change: Change, expect: str = REFUSED, **options: Any) -> Case:
    """Every tracked model file changed."""

    def make(place: Place) -> None:
        new_items(place)
        for path in files(place.home):
            path.write_bytes(change(path.read_bytes()))

    return Case(name, make, ANNOTATE, expect=expect, check=not_used, **options)


def not_used(place: Place, output: str) -> str | None:
    """Nothing was executed and no annotations were written with a changed model."""
    if (place.folder / "owned").exists():
        return "a pickle was executed"
    return "annotations were written" if (place.folder / "out.csv").exists() else None


def members(data: bytes) -> dict[str, bytes]:
    """The members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(content: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of members."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as made:
        for name, data in content.items():
            made.writestr(name, data)
    return target.getvalue()


def with_schema(change: Callable[[dict[str, object]], object]) -> Change:
    """Change the schema of a model."""

    def apply(data: bytes) -> bytes:
        content = members(data)
        schema = json.loads(content["schema.json"])
        changed = change(schema)
        text = (
            changed
            if isinstance(changed, bytes)
            else json.dumps(schema if changed is None else changed).encode()
        )
        return archive({**content, "schema.json": text})

    return apply


def with_members(**changes: bytes | None) -> Change:
    """Replace, add or remove members of a model."""

    def apply(data: bytes) -> bytes:
        content: dict[str, bytes | None] = {
            **members(data),
            **{name.replace("__", "."): new for name, new in changes.items()},
        }
        return archive({name: new for name, new in content.items() if new is not None})

    return apply


def each_array(new: bytes) -> Change:
    """Replace every array of a model."""
    return lambda data: archive(
        {name: new if name.endswith(".npy") else old for name, old in members(data).items()}
    )


def bomb(size: int) -> bytes:
    """A model whose schema is an enormous string."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
        made.open("schema.json", "w", force_zip64=True) as member,
    ):
        member.write(b'{"a": "')
        for _ in range(size >> 24):
            member.write(b"x" * (1 << 24))
        member.write(b'"}')
    return target.getvalue()


def node(module: str, name: str) -> dict[str, object]:
    """A schema of one object of any class."""
    return {
        "__class__": name,
        "__module__": module,
        "__loader__": "ObjectNode",
        "__id__": 1,
        "content": None,
        "protocol": 2,
    }


CHANGES: dict[str, Change] = {
    "empty": lambda data: b"",
    "text": lambda data: b"hello",
    "a pickle": lambda data: pickle.dumps(Executed()),
    "zeros": lambda data: bytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "longer": lambda data: data + bytes(100),
    "packed again": lambda data: archive(members(data)),
    "an empty archive": lambda data: archive({}),
    "without schema": with_members(schema__json=None),
    "empty schema": with_members(schema__json=b""),
    "schema of null": with_members(schema__json=b"null"),
    "schema of a list": with_members(schema__json=b"[]"),
    "schema of text": with_members(schema__json=b"hello"),
    "deep schema": with_members(schema__json=b"[" * 100_000),
    "deep schema objects": with_members(schema__json=b'{"content":' * 20_000 + b"1" + b"}" * 20_000),
    "schema with a large integer": with_members(schema__json=b'{"a": ' + b"1" * 5000 + b"}"),
    "schema of 256 MB": lambda data: bomb(1 << 28),
    "schema of 1.5 GB": lambda data: bomb(3 << 29),
    "os.system": with_schema(lambda schema: node("os", "system")),
    "subprocess": with_schema(lambda schema: node("subprocess", "Popen")),
    "builtins.eval": with_schema(lambda schema: node("builtins", "eval")),
    "a class of the tests": with_schema(lambda schema: node("tests.hostile.sections.arrays", "Executed")),
    "a module that does not exist": with_schema(lambda schema: node("no.such.module", "X")),
    "a class name with escapes": with_schema(lambda schema: node("\x1b[2J", "\x1b[2J")),
    "unknown loader": with_schema(lambda schema: {**node("builtins", "dict"), "__loader__": "EvilNode"}),
    "unknown protocol": with_schema(lambda schema: {**schema, "protocol": 10**9}),
    "arrays missing": lambda data: archive({"schema.json": members(data)["schema.json"]}),
    "arrays of text": each_array(b"hello"),
    "arrays that claim 10^12 numbers": each_array(claim("<f8", "(1000000000000,)")),
    "arrays of nothing": each_array(npy(np.zeros(0))),
    "arrays of nan": each_array(npy(np.full(3, float("nan")))),
    "path upward": lambda data: archive({**members(data), "../../owned": b"x"}),
    "extra member": lambda data: archive({**members(data), "extra.txt": b"x"}),
}


def swapped(title: str, between: Callable[[list[Path]], None]) -> Case:
    """Valid models of other methods or of another training in the place of the tracked ones."""

    def make(place: Place) -> None:
        new_items(place)
        between(files(place.home))

    return Case(title, make, ANNOTATE, check=not_used)


def rotate(found: list[Path]) -> None:
    """Give every method the model of the next one."""
    payloads = [path.read_bytes() for path in found]
    assert len({*payloads}) > 1
    for path, payload in zip(found, payloads[1:] + payloads[:1], strict=True):
        path.write_bytes(payload)


def retrained(found: list[Path]) -> None:
    """Change one number of every model and pack it as labelscape does."""
    for path in found:
        content = members(path.read_bytes())
        arrays = [name for name in content if name.endswith(".npy")]
        content[arrays[0]] = flip(content[arrays[0]], len(content[arrays[0]]) - 1)
        path.write_bytes(archive(content, zipfile.ZIP_STORED))


def replace_by(plant: Callable[[Path], object]) -> Callable[[list[Path]], None]:
    """Put something else in the place of every model."""

    def between(found: list[Path]) -> None:
        for path in found:
            path.unlink()
            plant(path)

    return between


def flip_at(fraction: float, data: bytes) -> bytes:
    """Change the byte at a fraction of the length."""
    return flip(data, int(len(data) * fraction))


def labeled_items(home: Path) -> list[Path]:
    """The tracked files with the labeled items of the models."""
    return sorted(home.glob(f"mlartifacts/**/{LABELED_FILE}"))


def record(name: str, change: Change, forged: bool = False, **options: Any) -> Case:
    """The labeled items changed; `forged` also changes the digest in the database."""

    def make(place: Place) -> None:
        new_items(place)
        (path,) = labeled_items(place.home)
        path.write_bytes(change(path.read_bytes()))
        if forged:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            with contextlib.closing(sqlite3.connect(place.home / "mlflow.db")) as database, database:
                database.execute("UPDATE tags SET value = ? WHERE key = ?", (digest, LABELED_DIGEST))

    return Case(f"labeled items, {name}", make, ANNOTATE, check=not_used, **options)


def planted(name: str, plant: Callable[[Path], object]) -> Case:
    """Something else in the place of the labeled items."""

    def make(place: Place) -> None:
        new_items(place)
        replace_by(plant)(labeled_items(place.home))

    return Case(f"labeled items, {name}", make, ANNOTATE, check=not_used)


def each_other_array(new: bytes) -> Change:
    """Replace every array but the facts."""
    return lambda data: archive(
        {name: old if name == "facts.npy" else new for name, old in members(data).items()}
    )


RECORDS: dict[str, Change] = {
    **{name: CHANGES[name] for name in ("empty", "text", "a pickle", "zeros", "cut", "an empty archive")},
    "without facts": with_members(facts__npy=None),
    "facts of null": with_members(facts__npy=npy(np.frombuffer(b"null", np.uint8))),
    "deep facts": with_members(facts__npy=npy(np.frombuffer(b"[" * 100_000, np.uint8))),
    "ids of objects": with_members(ids__npy=npy(np.frombuffer(b"[{}, {}]", np.uint8))),
    "other labels": with_members(labels__npy=npy(np.zeros((3, 3), np.int8))),
    "arrays of text": each_other_array(b"hello"),
    "arrays that claim 10^12 numbers": each_other_array(claim("<f8", "(1000000000000,)")),
    "features of nan": with_members(X__npy=npy(np.full((2, 7), np.nan, np.float32))),
    "rows outside": with_members(rows__npy=npy(np.array([10**15]))),
}


def _records() -> Iterator[Case]:
    for name, change in RECORDS.items():
        yield record(name, change)
        yield record(f"{name}, with its digest", change, forged=True)
    yield planted("missing", lambda path: None)
    yield planted("a folder", lambda path: path.mkdir())
    yield planted("a pipe", os.mkfifo)
    yield planted("a link to /dev/zero", lambda path: path.symlink_to("/dev/zero"))
    for text in ("0", "1", "-1", "nan", "inf", "1e999", "x", "0.5.5"):
        yield Case(f"precision {text}", new_items, (*ANNOTATE, "--precision", text))


def _others() -> Iterator[Case]:
    yield Case("unchanged", new_items, ANNOTATE, expect=SURVIVED, says=("2 items",))
    yield swapped("swapped for that of another method", rotate)
    yield swapped("one number changed", retrained)
    yield swapped("missing", replace_by(lambda path: None))
    yield swapped("a folder", replace_by(lambda path: path.mkdir()))
    yield swapped("a self link", replace_by(lambda path: path.symlink_to(path.name)))
    yield swapped("a pipe", replace_by(os.mkfifo))
    yield swapped("a link to /dev/zero", replace_by(lambda path: path.symlink_to("/dev/zero")))
    for fraction in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield one(f"flipped at {fraction:.0%}", partial(flip_at, fraction))
    for text in ("", "zzz", "../..", "\x1b[2J", "0" * 10_000, "' OR 1=1 --"):
        yield Case(f"run {ascii(text)[:14]}", new_items, (*ANNOTATE, "--run", text), expect=ANY)
        yield Case(f"method {ascii(text)[:14]}", new_items, (*ANNOTATE, "--method", text), expect=ANY)
        yield Case(f"experiment {ascii(text)[:14]}", new_items, (*ANNOTATE, "--experiment", text), expect=ANY)
    for text in (
        "{here}/no/such/folder/x",
        "/proc/x",
        "/dev/null/x",
        "{home}",
        "\x1b[2J/x",
        "x" * 300,
        "~nouser/x",
    ):
        # The text must not blame the disk.
        name = f"out {ascii(text)[:24]}"
        yield Case(name, new_items, (*ANNOTATE[:-1], text), expect=ANY, silent=("healthy disk", "--home or"))


def prepare(shared: Path) -> None:
    """Train the model that the cases change."""
    train_model(shared)


def cases() -> list[Case]:
    """The cases of this section."""
    return [*(one(title, change) for title, change in CHANGES.items()), *_records(), *_others()]
