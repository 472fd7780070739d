"""Hostile configuration files are refused quickly."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.config import load_config
from flows.toml_text import DEEPEST, parse_toml
from storage.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".".join("a" * 20_000) + " = 1", f"a key of more than {DEEPEST} parts"),
        ("[" + " . ".join("a" * 20_000) + "]", f"a key of more than {DEEPEST} parts"),
        (".".join(["'a'", '"b"'] * 10_000) + " = 1", f"a key of more than {DEEPEST} parts"),
        ("a = " + "[" * 20_000, "nested too deeply"),
        ("a = " + "{a = " * 5_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "a number has too many digits"),
        ("#" + "x" * 300_000, "300,001 characters, a configuration has at most 256,000"),
        ('a = "' + '"' * 1_001, "Expected newline"),
    ],
)
def test_hostile_texts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match=message):
        parse_toml(text)
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "run.toml")


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_toml("\ufeffa = 1") == {"a": 1}


def test_an_override_with_a_deep_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="the key has more than 32 parts"):
        load_config(None, [".".join("a" * 20_000) + "=1"])


def test_dots_in_values_are_allowed() -> None:
    text = 'a = [1.5, 2.5, 3.5]\nb = "x.y.z"\nc.d.e = "../../data.csv"\n'
    assert parse_toml(text) == tomllib.loads(text)


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(st.text(max_size=60))
def test_other_texts_are_read_as_by_tomllib(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(tomllib.TOMLDecodeError):
            parse_toml(text)
    else:
        assert parse_toml(text) == expected
