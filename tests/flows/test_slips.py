"""Slips of every option of every command and of every setting: exit code 2 with advice, no internal error.

The cases are generated from the parsers and the typed settings, so that a new option or setting is covered.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.cli import build_parser
from flows.commands import COMMANDS
from flows.config import RunConfig, load_config
from flows.prefect_settings import has_own_prefect
from storage.errors import ConfigError
from tests.conftest import Command, write_pictures

# What no argument may be, and what the message says about it.
UNUSABLE = {
    "": "is empty",
    "  ": "is empty",
    "a\0b": "NUL",
    "caf\udce9": "not UTF-8",
    "x" * 5000: "at most 4096",
}
# Slips that only the command can judge. Each is refused, or means something (a file may be named "nan").
ODD = (
    *("~nobody-here/x", "x" * 300, "ftp://host/x", "http://[::1", "http://host:99999", "http://", "s3://"),
    *("-1", "0", "1.5", "1e309", "nan", "inf", "9" * 4000, "a/b", "..", "=", "a=b", "%s", "*"),
    *("/dev/null", "/dev/null/x", "/missing/x/y", "file", "file/below", "\x1b[31mred", "[red]x[/red]"),
)
NEEDED = {"folder": "iris", "run": "abcd"}


def commands() -> Iterator[tuple[list[str], argparse.ArgumentParser]]:
    """Every command and every action of a command, with its parser."""
    for name in COMMANDS:
        parser = _children(build_parser(name))[name]
        actions = _children(parser)
        yield from (([name, action], made) for action, made in actions.items())
        if not actions:
            yield [name], parser


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def placed(
    words: list[str], parser: argparse.ArgumentParser, target: argparse.Action, value: str
) -> list[str]:
    """The command with a value for one argument, and what it needs besides."""
    arguments = list(words)
    for one in parser._actions:
        if one is target:
            arguments += [f"{one.option_strings[-1]}={value}"] if one.option_strings else ["--", value]
        elif not one.option_strings and one.nargs is None:
            arguments.insert(len(words), NEEDED.get(one.dest, "features" if words[0] == "stage" else "list"))
    home = [] if target.dest == "home" else ["--home", "home"]
    return [*arguments[: len(words)], *home, *arguments[len(words) :]]


CASES = [
    pytest.param(words, parser, one, id=" ".join([*words, (one.option_strings or [one.dest])[-1]]))
    for words, parser in commands()
    for one in parser._actions
    if one.nargs != 0
]


@pytest.mark.parametrize(("words", "parser", "target"), CASES)
def test_an_unusable_argument_is_named(
    command: Command, words: list[str], parser: argparse.ArgumentParser, target: argparse.Action
) -> None:
    for value, says in UNUSABLE.items() if target.type is None else ():
        done = command(*placed(words, parser, target, value))
        assert done.code == 2
        assert says in done.err
        assert len(done.err) < 1000
        assert not list(Path().iterdir()), "nothing is written"


def explained(code: object, err: str) -> bool:
    return code in (0, 2) and "unexpected" not in err and "Traceback" not in err and len(err) < 20_000


@pytest.mark.slow
@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize(("words", "parser", "target"), CASES)
def test_an_odd_argument_is_refused_or_means_something(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    parser: argparse.ArgumentParser,
    target: argparse.Action,
) -> None:
    def start(*_: object, **__: object) -> None:
        raise ConfigError("the run would start")

    monkeypatch.setattr("flows.runner.Run.execute", start)
    monkeypatch.setattr("flows.services.up", start)
    Path("file").write_text("mine")
    Path("labelscape.toml").write_text('[source]\npath = "iris"\n')  # the demo takes seconds to draw
    for value in ODD:
        try:
            done = command(*placed(words, parser, target, value))
        except SystemExit as stop:  # refused by the parser
            assert stop.code == 2
            continue
        assert explained(done.code, done.err), (value, done.code, done.err[:500])
        assert "\x1b" not in done.out + done.err
        assert "resume" not in done.err
    assert Path("file").read_text() == "mine"


def settings(model: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[str]:
    """The dotted names of all settings, tables included."""
    for name, field in model.model_fields.items():
        yield ".".join((*before, name))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, (*before, name))


SETTINGS = [*settings(RunConfig), "embedding.params.svm.C", "embedding.params.mlda.n_components"]
# TOML values that no setting has.
NEVER = {
    '"a\\u0000b"': "NUL",
    f'"{"x" * 5000}"': "at most 4096",
    str(10**18): "out of range",
    f"[{10**18}]": "out of range",
}
SOMETIMES = (
    *("-1", "0", "1.5", "1e308", "1e309", "nan", "-inf", "true", "[]", "{}", "[1]", "{a=1}", "[[1]]"),
    *("2020-01-01", "9" * 5000, "[" * 3000, "a\nb=1", '"~nobody-here/x"', '"ftp://host/x"', '"http://[::1"'),
    *('"/dev/null/x"', '"\\u001b[31m"', "=", ".", '"x"'),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_refused_with_its_name(name: str) -> None:
    for value in NEVER:
        with pytest.raises(ConfigError, match=name.split(".")[0]):
            load_config(None, [f"{name}={value}"])


@pytest.mark.parametrize("name", ["name", "source.path", "store.uri", "embedding.params.svm.C"])
@pytest.mark.parametrize(("value", "says"), NEVER.items(), ids=NEVER.values())
def test_the_message_says_why(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(None, [f"{name}={value}"])


@pytest.mark.parametrize(
    "name", ["name", "home", "source.path", "source.labels", "store.uri", "tracking.uri"]
)
def test_an_empty_setting_is_not_the_default(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: is empty; leave the key out"):
        load_config(None, [f'{name}=""'])


@pytest.mark.parametrize("name", ["evaluation.folds", "affinity.n_neighbors", "evaluation.n_neighbors"])
def test_true_is_not_a_number(name: str) -> None:
    with pytest.raises(ConfigError, match="expected a number, not true or false"):
        load_config(None, [f"{name}={'[true]' if name == 'evaluation.n_neighbors' else 'true'}"])


@pytest.mark.parametrize("text", ["", "=", "=1", " =1", "folds", "a..b=1", ".=1", "a.=1", "source.path.x=1"])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        load_config(None, ["source.path=iris", text])


@pytest.mark.parametrize(
    "budget", ["9" * 4000 + "h", "999999999h", "8785h", "-1h", "0s", "1h1h", "h", "1e3s"]
)
def test_a_budget_is_at_most_a_year(budget: str) -> None:
    with pytest.raises(ConfigError, match=r"auto\.budget"):
        load_config(None, [f"auto.budget={budget}"])


@pytest.mark.slow
@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("name", SETTINGS)
def test_an_odd_setting_is_refused_or_means_something(command: Command, tmp_path: Path, name: str) -> None:
    folder = write_pictures(tmp_path / "pictures", 12)
    fixed = ("--set", "executor=serial", "--set", "tracking.enabled=false", "--until", "embedding")
    for value in SOMETIMES:
        done = command("run", folder, *fixed, "--set", f"{name}={value}")
        assert explained(done.code, done.err), (value, done.code, done.err[:500])
        assert "\x1b" not in done.out + done.err
        assert "resume" not in done.err


@pytest.mark.parametrize(
    ("variable", "value", "arguments"),
    [
        ("LABELSCAPE_HOME", "~nobody-here/x", ("store", "ls")),
        ("LABELSCAPE_HOME", "x" * 300, ("status", "iris")),
        ("LABELSCAPE_HOME", "caf\udce9", ("lineage",)),
        ("LABELSCAPE_STORE", "garbage", ("store", "ls")),
        ("LABELSCAPE_STORE", "http://[::1", ("store", "ls")),
        ("LABELSCAPE_STORE", "nosuch://bucket", ("store", "ls")),
        ("LABELSCAPE_DATA", "~nobody-here", ("reproduce", "list")),
        ("OMP_NUM_THREADS", "x", ("methods",)),
        ("NUMBA_NUM_THREADS", "0", ("methods",)),
        ("MKL_NUM_THREADS", "-4", ("methods",)),
        ("PREFECT_API_URL", "garbage", ("serve", "iris")),
        ("PREFECT_API_URL", "http://[::1", ("serve", "iris")),
        ("PREFECT_API_URL", "http://127.0.0.1:99999/api", ("deploy", "iris")),
    ],
)
def test_nonsense_in_the_environment_is_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv(variable, value)
    done = command(*arguments)
    assert done.code == 2
    assert variable in done.err or "store.uri" in done.err or "nosuch" in done.err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("COLUMNS", "-5"), ("COLUMNS", "1"), ("COLUMNS", "x"), ("TERM", ""), ("TZ", "nonsense"), ("LANG", "x")],
)
def test_nonsense_that_changes_nothing_is_ignored(
    command: Command, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert command("methods").code == 0
    monkeypatch.delenv("HOME", raising=False)
    assert command("config").code == 0


def test_a_user_without_home_folder_has_no_prefect_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    assert not has_own_prefect()


def test_a_link_to_itself_is_no_home(command: Command) -> None:
    Path("loop").symlink_to("loop")
    done: Any = command("status", "iris", "--home", "loop")
    assert done.code == 2
    assert "loop" in done.err
