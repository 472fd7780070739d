"""The artifact store: damaged, missing, swapped, forged and stray files."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.case import QUIET, REFUSED, SURVIVED, Case, Place, in_turn
from tests.hostile.samples import flip
from tests.hostile.templates import QUICK, copy_home, train_table

ANY = f"{REFUSED}|{SURVIVED}"
STAGES = ("ingest", "features", "affinity", "correlation", "embedding", "model", "evaluation", "report")
RUN = ("run", "{shared}/source/t.csv", *QUIET, *QUICK, "--until", "evaluation")
VERIFY = ("store", "verify")
DEEP = b"[" * 100_000
Spoil = Callable[[Path], object]

SPOILS: dict[str, Spoil] = {
    "flipped near the start": lambda path: path.write_bytes(flip(path.read_bytes(), 7)),
    "flipped in the middle": lambda path: path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2)),
    "flipped near the end": lambda path: path.write_bytes(flip(path.read_bytes(), path.stat().st_size - 9)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "missing": lambda path: path.unlink(),
    "a folder": in_turn(Path.unlink, Path.mkdir),
    "a dangling link": in_turn(Path.unlink, lambda path: path.symlink_to("/nowhere")),
}
RECORD_SPOILS: dict[str, Spoil] = {
    "an empty object": lambda path: path.write_bytes(b"{}"),
    "a list": lambda path: path.write_bytes(b"[1, 2]"),
    "null": lambda path: path.write_bytes(b"null"),
    "deep": lambda path: path.write_bytes(DEEP),
    "an integer of 5,000 digits": lambda path: path.write_bytes(b'{"rows": ' + b"1" * 5000 + b"}"),
    "latin-1": lambda path: path.write_bytes(b'{"a": "\xe9"}'),
    "utf-16": lambda path: path.write_bytes('{"a": 1}'.encode("utf-16")),
    "a surrogate": lambda path: path.write_bytes(b'{"checksum": "\\ud800"}'),
    "an escape": lambda path: path.write_bytes(b'{"checksum": "\\u001b[2J"}'),
    "20 MB of spaces": lambda path: path.write_bytes(b" " * 20_000_000),
}


def data_file(home: Path, stage: str) -> Path:
    """The data of the first artifact of a stage."""
    return sorted((home / "store" / stage).glob("*/*.parquet"))[0]


def manifest_file(home: Path, stage: str) -> Path:
    """The manifest of the first artifact of a stage."""
    return sorted((home / "store" / stage).glob("*/*.json"))[0]


def record_file(home: Path, folder: str) -> Path:
    """The first record of a folder."""
    return sorted((home / "store" / folder).glob("*.json"))[0]


def spoiled(find: Callable[[Path, str], Path], stage: str, spoil: Spoil) -> Callable[[Place], None]:
    """Copy the template and spoil one of its files."""

    def make(place: Place) -> None:
        copy_home(place)
        spoil(find(place.home, stage))

    return make


def same_results(place: Place, output: str) -> str | None:
    """Every artifact of the template, but the report, has the same digest again."""
    for path in (place.shared / "home" / "store").glob("*/*/*.json"):
        relative = path.relative_to(place.shared)
        now = place.folder / relative
        if relative.parts[2] == "report":
            continue
        if (
            not now.is_file()
            or json.loads(now.read_bytes())["digest"] != json.loads(path.read_bytes())["digest"]
        ):
            return f"{relative.parts[2]} was not computed again"
    return None


def damaged() -> Iterator[Case]:
    """Every kind of artifact, its data and its manifest, damaged in every way."""
    for stage in STAGES:
        for number, (title, spoil) in enumerate(SPOILS.items()):
            make = spoiled(data_file, stage, spoil)
            yield Case(f"verify: data of {stage} {title}", make, VERIFY, codes=(1,), says=(stage,))
            if stage != "report" and number % 2 == STAGES.index(stage) % 2:
                yield Case(f"run: data of {stage} {title}", make, RUN, expect=SURVIVED, long_output=True)
        manifests = {**SPOILS, **RECORD_SPOILS} if stage in ("ingest", "model") else SPOILS
        for number, (title, spoil) in enumerate(manifests.items()):
            make = spoiled(manifest_file, stage, spoil)
            yield Case(f"verify: manifest of {stage} {title}", make, VERIFY, expect=ANY, codes=(1,))
            if stage != "report" and number % 2 != STAGES.index(stage) % 2:
                check = None if stage == "features" or title == "a folder" else same_results
                expect = ANY if title == "a folder" else SURVIVED
                yield Case(
                    f"run: manifest of {stage} {title}",
                    make,
                    RUN,
                    expect=expect,
                    long_output=True,
                    check=check,
                )


COMMANDS: dict[str, tuple[str, ...]] = {
    "ls": ("store", "ls"),
    "ls --runs": ("store", "ls", "--runs"),
    "du": ("store", "du"),
    "verify": VERIFY,
    "gc": ("store", "gc", "--dry-run"),
    "lineage": ("lineage",),
    "status": ("status", "{shared}/source/t.csv", *QUIET, *QUICK),
    "run": RUN,
}


def records() -> Iterator[Case]:
    """Damaged run records and pointers; every command names them or works without them."""
    for folder in ("runs", "pointers"):
        for number, (title, spoil) in enumerate({**SPOILS, **RECORD_SPOILS}.items()):
            make = spoiled(record_file, folder, spoil)
            for command in ("verify", "run", list(COMMANDS)[number % 7]):
                name = f"{command}: record in {folder} {title}"
                if command == "verify" and number % 7 == 3:
                    continue
                yield Case(
                    name,
                    make,
                    COMMANDS[command],
                    expect=ANY,
                    codes=(1,) if command == "verify" else (),
                    long_output=True,
                )


STRAY: dict[str, Callable[[Path], object]] = {
    "x.json in the store": lambda store: (store / "x.json").write_text("{}"),
    "x.json in a stage": lambda store: (store / "ingest" / "x.json").write_text("{}"),
    "x.json in a folder of a stage": lambda store: (
        manifest_file(store.parent, "ingest").with_name("x.json").write_text("{}")
    ),
    "x.json among the runs": lambda store: (store / "runs" / "x.json").write_text("{}"),
    "x.json among the pointers": lambda store: (store / "pointers" / "x.json").write_text("{}"),
    "text file": lambda store: (store / "README.txt").write_text("hello"),
    "hidden file": lambda store: (store / "ingest" / ".DS_Store").write_bytes(b"\0\0\0\1Bud1"),
    "folder named like a manifest": lambda store: (store / "ingest" / "ab" / f"{'ab' * 32}.json").mkdir(
        parents=True
    ),
    "pipe named like a manifest": in_turn(
        lambda store: (store / "ingest" / "ab").mkdir(exist_ok=True),
        lambda store: os.mkfifo(store / "ingest" / "ab" / f"{'ab' * 32}.json"),
    ),
    "self link": lambda store: (store / "loop").symlink_to("loop"),
    "folder loop": lambda store: (store / "ingest" / "loop").symlink_to(".."),
    "link to /proc": lambda store: (store / "proc").symlink_to("/proc"),
    "name with escapes": lambda store: (store / "\x1b[2J\n.json").write_text("{}"),
    "name that is not UTF-8": lambda store: Path(os.fsdecode(os.fsencode(store) + b"/\xff.json")).write_text(
        "{}"
    ),
    "manifest of another key": lambda store: shutil.copy(
        manifest_file(store.parent, "ingest"),
        manifest_file(store.parent, "ingest").with_name(f"{'ab' * 32}.json"),
    ),
    "stage with a strange name": in_turn(
        lambda store: (store / "a b" / "ab").mkdir(parents=True),
        lambda store: (store / "a b" / "ab" / f"{'ab' * 32}.json").write_text("{}"),
    ),
}


def stray() -> Iterator[Case]:
    """Files that the store did not write do not stop its commands."""
    for title, plant in STRAY.items():

        def make(place: Place, plant: Callable[[Path], object] = plant) -> None:
            copy_home(place)
            plant(place.home / "store")

        for command in ("ls", "du", "verify", "gc"):
            # A file in the place of a record or manifest counts as a damaged one: verify lists it.
            codes = (1,) if command == "verify" else ()
            expect = ANY if command == "verify" or "among" in title else SURVIVED
            given = COMMANDS[command]
            yield Case(
                f"{command}: {title}", make, given, expect=expect, codes=codes, long_output=True, seconds=15
            )


FORGED: dict[str, dict[str, Any]] = {
    "rows of 10^30": {"rows": 10**30},
    "negative rows": {"rows": -1},
    "rows of text": {"rows": "many"},
    "bytes of 10^30": {"bytes": 10**30},
    "bytes of text": {"bytes": "\x1b[2J"},
    "seconds of text": {"seconds": "long"},
    "seconds of 10^300": {"seconds": 1e300},
    "created in words": {"created": "yesterday \x1b[2J"},
    "created a number": {"created": 7},
    "links to itself": {"links": ["ingest/" + "ab" * 32], "link_digests": ["ab" * 32]},
    "links of other length": {"links": ["ingest/" + "ab" * 32], "link_digests": []},
    "links of nonsense": {"links": ["../../etc/passwd"], "link_digests": ["x"]},
    "links of text": {"links": "ingest"},
    "parents of nonsense": {"parents": {"items": {"stage": "../..", "key": "x", "digest": "y"}}},
    "parents of text": {"parents": "none"},
    "parents that do not exist": {
        "parents": {"items": {"stage": "ingest", "key": "cd" * 32, "digest": "cd" * 32}}
    },
    "recipe null": {"recipe": None},
    "recipe of 1 MB": {"recipe": {"variant": "v" * 1_000_000}},
    "digest of another file": {"digest": "ab" * 32},
    "digest with a path": {"digest": "../../../../etc/passwd"},
    "digest null": {"digest": None},
    "kind with escapes": {"kind": "\x1b[2J"},
    "versions a list": {"versions": [1]},
    "deep metadata": {"metadata": None},
}


def forge(place: Place, changes: dict[str, Any]) -> None:
    """Change a manifest and seal it again."""
    from storage.artifacts.disk import seal

    copy_home(place)
    path = manifest_file(place.home, "correlation")
    content = json.loads(path.read_bytes())
    content.pop("checksum")
    path.write_bytes(seal({**content, **changes}))


def forged() -> Iterator[Case]:
    """Manifests with a correct checksum and wrong content."""
    for number, (title, changes) in enumerate(FORGED.items()):

        def make(place: Place, changes: dict[str, Any] = changes) -> None:
            forge(place, changes)

        for command in ("verify", ("ls", "du", "gc", "lineage")[number % 4], "run"):
            codes = (1,) if command == "verify" else ()
            yield Case(
                f"{command}: forged {title}",
                make,
                COMMANDS[command],
                expect=ANY,
                codes=codes,
                long_output=True,
            )


def swapped() -> Iterator[Case]:
    """Data and manifests of one artifact in the place of another."""

    def swap(find: Callable[[Path, str], Path], one: str, other: str) -> Callable[[Place], None]:
        def make(place: Place) -> None:
            copy_home(place)
            first, second = find(place.home, one), find(place.home, other)
            data = first.read_bytes()
            first.write_bytes(second.read_bytes())
            second.write_bytes(data)

        return make

    for one, other in (("ingest", "features"), ("embedding", "model"), ("affinity", "correlation")):
        for title, find in (("data", data_file), ("manifests", manifest_file)):
            yield Case(
                f"verify: {title} of {one} and {other} swapped", swap(find, one, other), VERIFY, codes=(1,)
            )
            yield Case(
                f"run: {title} of {one} and {other} swapped",
                swap(find, one, other),
                RUN,
                expect=SURVIVED,
                long_output=True,
            )

    def two_models(place: Place) -> None:
        copy_home(place)
        first, second = sorted((place.home / "store" / "model").glob("*/*.parquet"))[:2]
        first.write_bytes(second.read_bytes())

    yield Case("verify: model swapped for another valid one", two_models, VERIFY, codes=(1,), says=("model",))


def others() -> Iterator[Case]:
    """Commands on a home that has no store, or that name runs which do not exist."""
    for name, command in {**COMMANDS, "sync": ("sync",), "compare": ("compare",)}.items():
        if name not in ("run", "status"):
            yield Case(f"{name}: no store", lambda place: None, command, expect=ANY)
    for text in ("", "x", "zzz", "../../etc/passwd", "\x1b[2J", "0" * 10_000, "--", "*"):
        shown = ascii(text)[:20]
        yield Case(f"lineage of run {shown}", copy_home, ("lineage", text), expect=ANY, long_output=True)
        yield Case(f"pin of run {shown}", copy_home, ("store", "pin", text), expect=ANY)
        yield Case(f"run --as {shown}", copy_home, ("run", "--as", text), expect=ANY, long_output=True)
    for text in ("-1", "x", "1e3", "9" * 5000, ""):
        yield Case(
            f"gc --keep {text[:10]!r}", copy_home, ("store", "gc", "--dry-run", "--keep", text), expect=ANY
        )
    yield Case(
        "damaged run record is named",
        spoiled(record_file, "runs", SPOILS["flipped in the middle"]),
        ("store", "gc", "--dry-run"),
        expect=ANY,
        says=("runs/",),
    )


def prepare(shared: Path) -> None:
    """Train the home that the cases damage."""
    train_table(shared)


def cases() -> list[Case]:
    """The cases of this section."""
    return [*damaged(), *records(), *stray(), *forged(), *swapped(), *others()]
