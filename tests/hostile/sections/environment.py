"""The surroundings of a command: variables, limits, closed outputs, file modes, broken databases."""

import os
import resource
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.case import (
    QUIET,
    REFUSED,
    SURVIVED,
    Case,
    Place,
    command_of,
    finish,
    in_turn,
    piped,
    start,
    with_variable,
)
from tests.hostile.samples import pictures, write_table
from tests.hostile.templates import QUICK, copy_model_home, train_model

ANY = f"{REFUSED}|{SURVIVED}"
INGEST = ("run", "{source}", "--until", "ingest", *QUIET, "--home", "{home}")
FEATURES = ("run", "{source}", "--until", "features", *QUIET, "--home", "{home}")
TRACKED = ("run", "{source}", *QUICK, "--set", "executor=serial", "--set", "embedding.methods=['mlda']")


def given_pictures(place: Place) -> None:
    """Four good pictures."""
    pictures(place.source)


VARIABLES: dict[str, tuple[str | None, str]] = {
    "HOME": (None, SURVIVED),
    "PATH": (None, SURVIVED),
    "TMPDIR": ("/nowhere/at/all", SURVIVED),
    "LANG": ("xx_XX.evil", SURVIVED),
    "LC_ALL": ("C", SURVIVED),
    "PYTHONIOENCODING": ("ascii", SURVIVED),
    "TERM": ("evil", SURVIVED),
    "COLUMNS": ("-5", SURVIVED),
    "COLUMNS ": ("x", SURVIVED),
    "TZ": ("evil", SURVIVED),
    "NO_COLOR": ("", SURVIVED),
    "LABELSCAPE_HOME": ("", ANY),
    "LABELSCAPE_STORE": ("evil://x", REFUSED),
    "LABELSCAPE_STORE ": ("http://[::1", REFUSED),
    "LABELSCAPE_DATA": ("/nowhere", SURVIVED),
    "OMP_NUM_THREADS": ("x", ANY),
    "OMP_NUM_THREADS ": ("-1", ANY),
    "MLFLOW_TRACKING_URI": ("evil://x", ANY),
    "PREFECT_API_URL": ("http://[::1", ANY),
    "PREFECT_LOGGING_LEVEL": ("evil", ANY),
    "PYTHONHASHSEED": ("0", SURVIVED),
    "PYTHONWARNINGS": ("error", ANY),
    "HOME ": ("/dev/null", SURVIVED),
    "MPLCONFIGDIR": ("/dev/null", SURVIVED),
}


# Read when Python or a library starts; these need a process of their own.
AT_START = ("LANG", "PYTHONIOENCODING", "PYTHONWARNINGS", "OMP_NUM_THREADS", "TMPDIR")


def variables() -> Iterator[Case]:
    """Variables that are missing or nonsense."""
    for name, (value, expect) in VARIABLES.items():
        title = f"{name.strip()} {'unset' if value is None else '= ' + value}"
        if name.strip() in AT_START:
            yield command_of(
                title, given_pictures, *INGEST, expect=expect, process={"env": {name.strip(): value}}
            )
        else:
            yield Case(title, given_pictures, act=with_variable(name.strip(), value, INGEST), expect=expect)


def no_home_at_all(place: Place) -> int:
    """A run without HOME, as a user whom the system does not know."""
    return finish(start(place, *INGEST, env={"HOME": None, "USER": None, "LOGNAME": None}))


def private(place: Place, output: str) -> str | None:
    """Only the owner can read the home folder and everything in it."""
    for path in (place.home, *place.home.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode & 0o077:
            return f"{path.relative_to(place.folder)} has the mode {mode:04o}"
    return None


def modes() -> Iterator[Case]:
    """The home is private whatever the umask; files that the user asked for follow it."""
    for mask in (0o000, 0o002, 0o022, 0o027, 0o077):
        given = {"preexec": lambda m=mask: os.umask(m)}
        yield command_of(
            f"umask {mask:03o}", given_pictures, *FEATURES, expect=SURVIVED, check=private, process=given
        )
    whole = ("run", "{source}/t.csv", *QUICK, *QUIET, "--home", "{home}")
    table = lambda place: write_table(place.source)  # noqa: E731
    yield command_of(
        "umask 000, all stages",
        table,
        *whole,
        expect=SURVIVED,
        check=private,
        long_output=True,
        process={"preexec": lambda: os.umask(0)},
    )

    def open_home(place: Place) -> None:
        given_pictures(place)
        place.home.mkdir(mode=0o777)
        place.home.chmod(0o777)

    yield command_of("home that is open to all", open_home, *INGEST, expect=SURVIVED, says=("home",))


def closed(*numbers: int) -> Callable[[], None]:
    """Close standard streams before the command starts."""
    return lambda: os.closerange(numbers[0], numbers[-1] + 1)


def outputs() -> Iterator[Case]:
    """Outputs that are closed, full or end early: the command ends quietly."""
    for title, numbers in {
        "input": (0,),
        "output": (1,),
        "errors": (2,),
        "output and errors": (1, 2),
        "all": (0, 1, 2),
    }.items():
        yield command_of(
            f"closed {title}", given_pictures, *INGEST, expect=SURVIVED, process={"preexec": closed(*numbers)}
        )
        yield command_of(
            f"closed {title}: config",
            given_pictures,
            "config",
            expect=SURVIVED,
            long_output=True,
            process={"preexec": closed(*numbers)},
        )

    def full(place: Place) -> int:
        device = os.open("/dev/full", os.O_WRONLY)
        code = finish(start(place, "config", files=(device, 2)))
        # There is no correct code here; a shell's `config > file` on a full disk must not claim success.
        return 2 if code in (1, 2) else code

    yield Case("output to a full disk", given_pictures, act=_told(full), expect=ANY)

    def early(place: Place) -> int:
        readable, writable = os.pipe()
        os.close(readable)
        code = finish(start(place, "config", files=(writable, 2)))
        return 0 if code in (0, 128 + signal.SIGPIPE, -signal.SIGPIPE) else code

    yield Case("reader that ends early", given_pictures, act=early, expect=SURVIVED)

    def early_errors(place: Place) -> int:
        readable, writable = os.pipe()
        os.close(readable)
        code = finish(start(place, *INGEST, files=(1, writable)))
        return 0 if code in (0, 128 + signal.SIGPIPE, -signal.SIGPIPE) else code

    yield Case("reader of errors that ends early", given_pictures, act=early_errors, expect=SURVIVED)


def _told(act: Callable[[Place], int]) -> Callable[[Place], int]:
    """The outcome printed, for commands whose own output is closed."""

    def told(place: Place) -> int:
        code = act(place)
        os.write(1, f"the command ended with exit code {code}\n".encode())
        return code

    return told


def limit(kind: int, value: int) -> Callable[[], None]:
    """Set a limit of the system before the command starts."""
    return lambda: resource.setrlimit(kind, (value, value))


def limits() -> Iterator[Case]:
    """Few open files, small files, little memory."""
    for count in (12, 16, 24, 40):
        given = {"preexec": limit(resource.RLIMIT_NOFILE, count)}
        yield command_of(f"{count} open files", given_pictures, *FEATURES, expect=ANY, process=given)
    for size in (0, 1, 1000, 10_000, 100_000):
        yield Case(
            f"files of at most {size} bytes",
            given_pictures,
            act=lambda place, s=size: piped(place, *FEATURES, preexec=limit(resource.RLIMIT_FSIZE, s)),  # type: ignore[misc]
            expect=REFUSED if size < 1000 else ANY,
            says=("room",) if size < 1000 else (),
        )


def as_nobody(place: Place) -> None:
    """Become a user without rights, if this is the superuser."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def opened(place: Place) -> None:
    """Let another user reach the folders of the case."""
    for path in (place.folder.parent, place.folder, *place.folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def forbidden(
    name: str,
    spoil: Callable[[Place], object],
    expect: str,
    arguments: tuple[str, ...] = FEATURES,
    **options: Any,
) -> Case:
    """A command of a user who may not read or write something."""

    def make(place: Place) -> None:
        given_pictures(place)
        opened(place)
        place.home.mkdir()
        place.home.chmod(0o777)
        place.folder.chmod(0o777)
        spoil(place)

    def act(place: Place) -> int:
        from flows.cli import main

        as_nobody(place)
        return main([place.fill(part) for part in arguments])

    return Case(name, make, act=act, expect=expect, **options)


def close_pictures(place: Place) -> None:
    """Forbid reading every picture."""
    for path in place.source.glob("*.png"):
        path.chmod(0)


def permissions() -> Iterator[Case]:
    """Folders and files that may not be read or written."""
    skipped = f"{ANY}|skipped"
    yield forbidden(
        "home that cannot be written", lambda place: place.home.chmod(0o555), REFUSED, says=("permission",)
    )
    yield forbidden(
        "home that cannot be entered", lambda place: place.home.chmod(0o000), REFUSED, says=("permission",)
    )
    yield forbidden("source that cannot be listed", lambda place: place.source.chmod(0o000), REFUSED)
    yield forbidden(
        "label file that cannot be read", lambda place: (place.source / "labels.csv").chmod(0), REFUSED
    )
    yield forbidden("picture that cannot be read", lambda place: (place.source / "p0.png").chmod(0), skipped)
    yield forbidden(
        "all pictures that cannot be read",
        close_pictures,
        REFUSED,
    )

    def closed_folder(place: Place) -> None:
        (place.source / "sub").mkdir()
        (place.source / "sub").chmod(0)

    yield forbidden("sub-folder that cannot be listed", closed_folder, skipped)


def tracked_home(place: Place) -> None:
    """A table as the source, and a home with a tracking database."""
    write_table(place.source)
    copy_model_home(place)


def database(name: str, spoil: Callable[[Path], object], *, tracked: bool = False) -> Case:
    """A run whose tracking database was spoiled: it completes, and says that and why it was not tracked."""

    def make(place: Place) -> None:
        tracked_home(place)
        spoil(place.home / "mlflow.db")

    says = () if tracked else ("NOT TRACKED",)
    command = ("run", "{source}/t.csv", *TRACKED[2:], "--home", "{home}")
    return Case(
        f"database {name}", make, command, expect=SURVIVED, says=says, long_output=True, check=explained
    )


def set_aside(path: Path) -> None:
    """Put another program's database in the place of ours."""
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE experiments (name TEXT)")


def linked_to(target: str) -> Callable[[Path], None]:
    """Put a link in the place of the database."""
    return in_turn(Path.unlink, lambda path: path.symlink_to(target))


def locked(place: Place) -> int:
    """A run while another process holds the database."""
    from flows.cli import main

    held = sqlite3.connect(place.home / "mlflow.db", isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    arguments = ("run", "{source}/t.csv", *TRACKED[2:], "--home", "{home}")
    return main([place.fill(part) for part in arguments])


def databases() -> Iterator[Case]:
    """Tracking databases that are damaged, foreign, locked or something else."""

    def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(change(path.read_bytes()))

    # Some damage is repaired by setting the database aside, and then the run is tracked in a new one.
    yield database("unchanged", lambda path: None, tracked=True)
    yield database("missing", lambda path: path.unlink(), tracked=True)
    yield database("empty", rewrite(lambda data: b""), tracked=True)
    for title, change in {
        "of zeros": lambda data: bytes(len(data)),
        "of text": lambda data: b"hello\n" * 1000,
        "of latin-1 text": lambda data: b"\xe9\xff" * 1000,
        "cut": lambda data: data[: len(data) // 2],
        "cut to its header": lambda data: data[:100],
        "with random bytes": lambda data: data[:4096] + bytes(k * 37 % 256 for k in range(len(data) - 4096)),
        "with a broken header": lambda data: b"SQLite format 9\x00" + data[16:],
    }.items():
        yield database(title, rewrite(change), tracked=True)
    yield database("of another program", set_aside, tracked=True)
    yield database("that is a folder", in_turn(Path.unlink, Path.mkdir))
    yield database("that is a dangling link", linked_to("/nowhere/x.db"), tracked=True)
    yield database("that is a link to /dev/full", linked_to("/dev/full"))
    yield Case(
        "database locked",
        tracked_home,
        act=locked,
        expect=SURVIVED,
        says=("NOT TRACKED",),
        long_output=True,
        seconds=120,
    )

    def full(place: Place) -> int:
        arguments = ("run", "{source}/t.csv", *TRACKED[2:], "--home", "{home}")
        size = (place.home / "mlflow.db").stat().st_size
        return piped(place, *arguments, preexec=limit(resource.RLIMIT_FSIZE, size))

    yield Case(
        "database on a full disk", tracked_home, act=full, expect=ANY, long_output=True, check=explained
    )


def explained(place: Place, output: str) -> str | None:
    """A run that was not tracked says so."""
    return (
        None
        if "NOT TRACKED" in output or "room" in output or "tracked " in output
        else "says nothing about the tracker"
    )


def prepare(shared: Path) -> None:
    """Make a home with a tracking database."""
    train_model(shared)


def cases() -> list[Case]:
    """The cases of this section."""
    unknown = Case("no HOME and no user", given_pictures, act=no_home_at_all, expect=SURVIVED)
    return [*variables(), unknown, *modes(), *outputs(), *limits(), *permissions(), *databases()]
