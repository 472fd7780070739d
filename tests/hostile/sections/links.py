"""Links, pipes, sockets and devices in place of files, and links planted where files are written."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.hostile.case import REFUSED, SKIPPED, SURVIVED, Case, Place, in_turn, run_until, settings
from tests.hostile.samples import encode, picture, pictures, write_table
from tests.hostile.templates import copy_model_home, train_model

FEATURES = run_until("features")
EITHER = f"{SKIPPED}|{SURVIVED}"
VICTIM = "do not touch\n"
Plant = Callable[[Path], object]


def link(target: str) -> Plant:
    """Plant a symbolic link."""
    return lambda path: path.symlink_to(target)


def listen(path: Path) -> None:
    """Plant a socket; its address must be short, so it is bound by its name."""
    os.chdir(path.parent)
    socket.socket(socket.AF_UNIX).bind(path.name)


def long_chain(path: Path) -> None:
    """Plant a chain of sixty links, more than the system follows."""
    for number in range(60):
        (path.parent / f".chain{number}").symlink_to(f".chain{number + 1}")
    path.symlink_to(".chain0")


STRANGE: dict[str, Plant] = {
    "self link": lambda path: path.symlink_to(path.name),
    "loop of two": in_turn(link(".b"), lambda path: (path.parent / ".b").symlink_to(path.name)),
    "dangling link": link("/nowhere/at/all"),
    "chain of sixty links": long_chain,
    "link to /dev/zero": link("/dev/zero"),
    "link to /dev/full": link("/dev/full"),
    "link to /dev/null": link("/dev/null"),
    "link to /dev/random": link("/dev/random"),
    "link to /dev/stdin": link("/dev/stdin"),
    "link to /dev/tty": link("/dev/tty"),
    "link to /proc/kmsg": link("/proc/kmsg"),
    "link to /proc/self/mem": link("/proc/self/mem"),
    "link to /proc/self/environ": link("/proc/self/environ"),
    "link to /proc/kcore": link("/proc/kcore"),
    "link to a folder": in_turn(lambda path: (path.parent / ".sub").mkdir(), link(".sub")),
    "pipe": lambda path: os.mkfifo(path),
    "link to a pipe": in_turn(lambda path: os.mkfifo(path.parent / ".pipe"), link(".pipe")),
    "socket": listen,
    "folder": lambda path: path.mkdir(),
    "null device": lambda path: (
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3)) if not os.getuid() else path.mkdir()
    ),
}


def as_picture(title: str, plant: Plant) -> Case:
    """Something strange with the name of a picture: skipped."""

    def make(place: Place) -> None:
        pictures(place.source)
        plant(place.source / "x.png")

    return Case(f"picture: {title}", make, FEATURES, expect=EITHER, seconds=20)


def as_labels(title: str, plant: Plant) -> Case:
    """Something strange with the name of the label file: refused, or not taken for a label file."""

    def make(place: Place) -> None:
        for name in ("a", "b"):
            pictures(place.source / name)
            (place.source / name / "labels.csv").unlink()
        plant(place.source / "labels.csv")

    return Case(
        f"label file: {title}", make, FEATURES, expect=f"{REFUSED}|{EITHER}", seconds=20, silent=("HOME=",)
    )


def as_table(title: str, plant: Plant) -> Case:
    """Something strange given as a table."""

    def make(place: Place) -> None:
        place.source.mkdir()
        plant(place.source / "t.csv")

    command = ("run", "{source}/t.csv", *FEATURES[2:])
    return Case(f"table: {title}", make, command, seconds=20, silent=("HOME=",))


def as_config(title: str, plant: Plant) -> Case:
    """Something strange given as a configuration."""
    command = ("config", "{here}/x.toml")
    # An empty file is a valid configuration.
    expect = f"{REFUSED}|{SURVIVED}" if "null" in title or "stdin" in title else REFUSED
    return Case(
        f"configuration: {title}",
        lambda place: plant(place.folder / "x.toml"),
        command,
        expect=expect,
        long_output=True,
        seconds=20,
        silent=("HOME=",),
    )


def as_edges(title: str, plant: Plant) -> Case:
    """Something strange given as an edge list."""

    def make(place: Place) -> None:
        write_table(place.source)
        plant(place.folder / "e.csv")

    command = run_until("affinity", *settings("source.edges={here}/e.csv"))
    return Case(f"edges: {title}", make, command, seconds=20, silent=("HOME=",))


def as_home(title: str, plant: Plant) -> Case:
    """Something strange at the place of the home folder."""

    def make(place: Place) -> None:
        pictures(place.source)
        plant(place.home)

    expect = f"{REFUSED}|{SURVIVED}" if "folder" in title else REFUSED
    return Case(f"home: {title}", make, FEATURES, expect=expect, seconds=20, check=None)


def folder_links() -> Iterator[Case]:
    """Links to folders inside a collection: loops are cut, nothing outside the collection is required."""

    def with_link(target: str, name: str = "sub") -> Callable[[Place], None]:
        def make(place: Place) -> None:
            pictures(place.source)
            (place.source / name).symlink_to(target)

        return make

    for title, target in {
        "itself": ".",
        "its parent": "..",
        "/proc": "/proc",
        "/proc/self": "/proc/self",
        "/sys": "/sys/kernel",
        "/dev": "/dev",
        "nothing": "/nowhere",
    }.items():
        yield Case(f"folder link to {title}", with_link(target), FEATURES, expect=EITHER, seconds=20)

    def two_loops(place: Place) -> None:
        pictures(place.source)
        for name, other in (("a", "b"), ("b", "a")):
            (place.source / name).mkdir()
            for number in range(4):
                (place.source / name / f"to{number}").symlink_to(f"../{other}")

    yield Case("folder links that multiply", two_loops, FEATURES, expect=EITHER, seconds=20)

    def deep(place: Place) -> None:
        pictures(place.source)
        os.chdir(place.source)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")

    yield Case("1,500 nested folders", deep, FEATURES, expect=f"{EITHER}|{REFUSED}", seconds=20)

    def outside(place: Place) -> None:
        pictures(place.source)
        (place.folder / "elsewhere.png").write_bytes(encode(picture(3), "PNG"))
        (place.source / "x.png").symlink_to("../elsewhere.png")

    yield Case("link to a good picture outside", outside, FEATURES, expect=EITHER)

    def inside(place: Place) -> None:
        pictures(place.source)
        (place.source / "x.png").symlink_to("p0.png")

    yield Case("link to a good picture inside", inside, FEATURES, expect=EITHER)


def labels_elsewhere(title: str, content: bytes, secret: str) -> Case:
    """`labels.csv` links to a file outside the collection: its content is not shown."""

    def make(place: Place) -> None:
        pictures(place.source)
        (place.folder / "given-shadow").write_bytes(content)
        (place.source / "labels.csv").unlink()
        (place.source / "labels.csv").symlink_to("../given-shadow")

    return Case(f"labels link to {title}", make, FEATURES, expect=f"{REFUSED}|{EITHER}", silent=(secret,))


def untouched(place: Place, output: str) -> str | None:
    """The target of a planted link still has its content."""
    found = (place.folder / "victim").read_text(encoding="utf-8")
    return None if found == VICTIM else f"the target of a link was overwritten with {found[:40]!r}"


def planted(title: str, *names: str, command: tuple[str, ...] = FEATURES, expect: str = SURVIVED) -> Case:
    """Links at names that the program may write to; the target must keep its content."""

    def make(place: Place) -> None:
        if command[0] == "annotate":
            copy_model_home(place)
            place.source.mkdir()
            (place.source / "x.png").write_bytes(encode(picture(5), "PNG"))
        else:
            pictures(place.source)
        (place.folder / "victim").write_text(VICTIM, encoding="utf-8")
        for name in names:
            path = place.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(place.folder / "victim")

    return Case(f"planted: {title}", make, command, expect=expect, check=untouched)


def prepare(shared: Path) -> None:
    """Train the model that annotates."""
    train_model(shared)


def _planted() -> Iterator[Case]:
    any_end = f"{SURVIVED}|{REFUSED}"
    yield planted(
        "lock of the store", "home/store/locks/gc.lock", "home/store/locks/store.lock", expect=any_end
    )
    yield planted(
        "locks that stages use",
        *(f"home/store/locks/{name}.lock" for name in ("in_use", "run", "all", "gc")),
        expect=any_end,
    )
    yield planted("code cache", "home/cache/code.json", "home/cache/code.json.tmp", expect=any_end)
    yield planted(
        "database lock", "home/mlflow.lock", "home/mlflow.db.lock", "home/services.lock", expect=any_end
    )
    annotate = ("annotate", "{source}", "--out", "{out}")
    temporary = ("out.csv.tmp", "out.parquet.tmp", "out.tmp", ".out.csv.tmp", "out.csv.part")
    yield planted("temporary names of annotations", *temporary, command=annotate)
    yield planted("lock of annotations", "out.lock", "out.csv.lock", command=annotate)
    yield planted("services record", "home/services.json", command=("down",), expect=any_end)
    yield planted("services lock", "home/services.lock", command=("down",), expect=any_end)


def cases() -> list[Case]:
    """The cases of this section."""
    built = [
        make(title, plant) for make in (as_picture, as_labels, as_table) for title, plant in STRANGE.items()
    ]
    some = {title: STRANGE[title] for title in list(STRANGE)[::2]}
    built += [make(title, plant) for make in (as_config, as_edges) for title, plant in some.items()]
    homes = ("self link", "loop of two", "link to /dev/null", "pipe", "socket", "link to a pipe")
    built += [as_home(title, STRANGE[title]) for title in homes]
    shadow = b"root:$6$SECRETHASH:19000:0:99999:7:::\n"
    built += [
        labels_elsewhere("one line", shadow, "SECRETHASH"),
        labels_elsewhere("many lines", shadow * 50, "SECRETHASH"),
        labels_elsewhere("a header", b"filename,labels,SECRETHASH,more\n1,2,3,4,5,6\n", "SECRETHASH"),
        labels_elsewhere("quotes", b'filename,labels\n"SECRETHASH\n', "SECRETHASH"),
        labels_elsewhere("binary", b"filename,labels\nSECRETHASH\xff\n", "SECRETHASH"),
    ]
    return [*built, *folder_links(), *_planted()]
