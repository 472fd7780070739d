"""What a hostile case is: how its input is made, which command reads it, and what must happen."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]

REFUSED, SKIPPED, SURVIVED = "refused", "skipped", "survived"
"""Exit code 2 with advice; exit code 0 and the item is listed; exit code 0 with a correct result."""

QUIET = ("--set", "tracking.enabled=false", "--set", "executor=serial")


@dataclass(frozen=True)
class Place:
    """The folders of one case; all are inside `folder`, which is removed afterwards.

    `shared` is the folder that `prepare` of the section has filled; cases copy from it.
    """

    folder: Path
    shared: Path

    @property
    def source(self) -> Path:
        """What the command reads."""
        return self.folder / "source"

    @property
    def home(self) -> Path:
        """The home folder of the command."""
        return self.folder / "home"

    @property
    def out(self) -> Path:
        """Name for the files that the user asked for."""
        return self.folder / "out"

    def fill(self, text: str) -> str:
        """Replace {source}, {home}, {out}, {shared} and {here} in an argument."""
        names = {"source": self.source, "home": self.home, "out": self.out, "shared": self.shared}
        for name, path in {**names, "here": self.folder}.items():
            text = text.replace(f"{{{name}}}", str(path))
        return text


Make = Callable[[Place], object]
Act = Callable[[Place], int]
Check = Callable[[Place, str], str | None]


def in_turn(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    """Do several things with a path."""

    def apply(path: Path) -> None:
        for step in steps:
            step(path)

    return apply


def nothing(place: Place) -> None:
    """Make no input."""


@dataclass(frozen=True)
class Case:
    """One hostile input.

    Attributes
    ----------
    name : str
        Unique in its section.
    make : callable
        Writes the input into a `Place`.
    command : tuple of str
        Arguments of `labelscape`, with the placeholders of `Place.fill`; `--home {home}` is added.
    act : callable, optional
        Runs instead of a command: prints like one and returns its exit code.
    expect : str
        The expected class; several are joined by "|".
    says : tuple of str
        Words that the output must contain.
    silent : tuple of str
        Words that the output must not contain.
    check : callable, optional
        Returns a problem, or None, given the place and the output.
    items : int, optional
        Number of items that ingest must have found.
    codes : tuple of int
        Exit codes besides 0 and 2 that are correct here; they count as refused.
    secrets : tuple of str
        Texts that must be neither printed nor written into the home or beside it.
    memory_mb, seconds : bounds
        Memory above the baseline of the process, and time; the time only catches hangs.
    long_output : bool
        Whether the output may be longer than 8 kB, because it is the requested result.
    """

    name: str
    make: Make = nothing
    command: tuple[str, ...] = ()
    act: Act | None = None
    expect: str = REFUSED
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    check: Check | None = None
    items: int | None = None
    codes: tuple[int, ...] = ()
    secrets: tuple[str, ...] = ()
    memory_mb: int = 1024
    seconds: float = 60.0
    long_output: bool = False

    def arguments(self, place: Place) -> list[str]:
        """The command line of this case."""
        given = [place.fill(part) for part in self.command]
        return given if "--home" in given or "--version" in given else [*given, "--home", str(place.home)]


def run_until(stage: str, *more: str) -> tuple[str, ...]:
    """The command that runs the source up to a stage, without tracker and worker processes."""
    return ("run", "{source}", "--until", stage, *QUIET, *more)


def settings(*pairs: str) -> tuple[str, ...]:
    """`--set` for each pair."""
    return tuple(part for pair in pairs for part in ("--set", pair))


def start(
    place: Place,
    *arguments: str,
    env: Mapping[str, str | None] | None = None,
    preexec: Callable[[], object] | None = None,
    engine: bool = False,
    files: tuple[int, int] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the command in a real process; without Prefect unless `engine` is set.

    Variables of `env` that are None are removed. `files` are its standard output and error.
    """
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}
    module = "flows.cli" if engine else "tests.hostile.child"
    return subprocess.Popen(
        [sys.executable, "-m", module, *(place.fill(part) for part in arguments)],
        cwd=place.folder,
        env={name: value for name, value in environment.items() if value is not None},
        stdin=subprocess.DEVNULL,
        stdout=files[0] if files else None,
        stderr=files[1] if files else None,
        preexec_fn=preexec,
    )


def finish(process: "subprocess.Popen[bytes]", seconds: float = 50) -> int:
    """Wait for a command; its exit code, or minus the number of the signal that ended it."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        sys.stdout.write("TIMEOUT\n")
        return 124


def piped(place: Place, *arguments: str, **options: Any) -> int:
    """Run the command with its output in a pipe, for limits that also hold for the files of this process."""
    process = start(place, *arguments, files=(subprocess.PIPE, subprocess.STDOUT), **options)
    said = process.communicate(timeout=50)[0]
    os.write(1, said)
    return process.returncode


def with_variable(name: str, value: str | None, arguments: Sequence[str]) -> Act:
    """Run the command in this process with a variable set, or removed if it is None."""

    def act(place: Place) -> int:
        from flows.cli import main

        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
        return main([place.fill(part) for part in arguments])

    return act


def command_of(
    name: str, make: Make, *arguments: str, process: dict[str, Any] | None = None, **options: Any
) -> Case:
    """A case whose command runs in a real process, with the keyword arguments of `start` in `process`."""

    def act(place: Place) -> int:
        return finish(start(place, *arguments, **(process or {})))

    return Case(name, make, act=act, **options)


Cases = Sequence[Case]
