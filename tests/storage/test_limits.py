"""Bounds on memory, short quotes, strict numbers, and the boundary that turns parser errors into refusals."""

import csv
import json
import struct
import zipfile
import zlib
from pathlib import Path
from xml.parsers import expat

import pyarrow as pa
import pytest

from storage import limits
from storage.errors import ConfigError, LabelscapeError, SourceError, StoreError
from storage.limits import GIGABYTE, LIMIT_VARIABLE, RATIO, SMALL, check_memory
from storage.quoting import list_names, quote, shorten
from storage.sources.boundary import reading
from storage.sources.labeling import sort_names
from storage.sources.numbers import is_whole, parse_number


def available(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    import psutil

    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("", (), {"available": count}))


def test_a_small_input_is_always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 0)
    check_memory(SMALL, "x", size=1)


def test_a_large_input_must_be_plausible_and_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 100 * GIGABYTE)
    size = GIGABYTE
    check_memory(RATIO * size, "x", size)
    check_memory(90 * GIGABYTE, "x")
    with pytest.raises(
        SourceError, match=r"a\.npz needs about 64\.1 GB .*; 64\.0 GB are plausible for a file of"
    ):
        check_memory(RATIO * size + GIGABYTE // 10, "a.npz", size)
    available(monkeypatch, 2 * GIGABYTE)
    with pytest.raises(StoreError, match=rf"2\.0 GB are available.*{LIMIT_VARIABLE}=3"):
        check_memory(3 * GIGABYTE, "x", size, StoreError)


def test_the_limit_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, GIGABYTE)
    monkeypatch.setenv(LIMIT_VARIABLE, "2.5")
    check_memory(2 * GIGABYTE, "x", size=1)
    with pytest.raises(SourceError, match=f"{LIMIT_VARIABLE} allows 2.5 GB"):
        check_memory(3 * GIGABYTE, "x", size=10**12)
    for text in ("much", "-1", "nan", "0"):
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        with pytest.raises(ConfigError, match="is not a number of gigabytes"):
            check_memory(3 * GIGABYTE, "x")


def test_absurd_claims_have_short_messages() -> None:
    with pytest.raises(SourceError) as caught:
        check_memory(10**5000, "x")
    assert len(str(caught.value)) < 500
    assert limits.SMALL < GIGABYTE


def test_quotes_are_short_and_printable() -> None:
    assert quote("sky") == "'sky'"
    assert quote("x" * 10**6) == f"'{'x' * 80}'... (1000000 characters)"
    assert quote("\x1b[31m\u202e") == "'\\x1b[31m\\u202e'"
    assert len(quote(list(range(10**5)))) < 120
    assert shorten("a\nb") == "a\\nb"
    assert list_names(["a", "b\x07", "c"], 2) == "a, b\\x07, ..."
    assert len(list_names(["x" * 10**5] * 100)) < 2000


@pytest.mark.parametrize("text", ["1_0", "inf", "-Infinity", "nan", "٣", "1e400", "", "0x10", "1 2", "９"])
def test_only_decimal_numbers_are_numbers(text: str) -> None:
    with pytest.raises(ValueError):
        parse_number(text)


def test_numbers_and_names() -> None:
    assert [parse_number(text) for text in ("1", " -2.5e3 ", "+.5", "1.")] == [1, -2500, 0.5, 1]
    assert is_whole("-12") and not is_whole("1_0") and not is_whole("٣") and not is_whole("9" * 5000)
    assert sort_names(["10", "9", "1_1"]) == ["10", "1_1", "9"]
    assert sort_names(["10", "9", "-1"]) == ["-1", "9", "10"]
    assert sort_names(["9" * 5000, "1"]) == ["1", "9" * 5000]


PARSER_ERRORS = [
    RecursionError("deep"),
    MemoryError(),
    OverflowError("too large"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    csv.Error("field larger than field limit (131072)"),
    zlib.error("Error -3"),
    zipfile.BadZipFile("Bad magic number"),
    struct.error("unpack requires a buffer"),
    expat.ExpatError("no element found"),
    EOFError(),
    OSError(5, "Input/output error"),
    pa.ArrowInvalid("bad page"),
    pa.ArrowNotImplementedError("no such type"),
    pa.ArrowKeyError("no such field"),
    json.JSONDecodeError("Expecting value", "x" * 10**6, 0),
    ValueError("x" * 10**6),
]


@pytest.mark.parametrize("error", PARSER_ERRORS, ids=lambda error: type(error).__name__)
def test_errors_of_parsers_become_refusals(error: Exception) -> None:
    with (
        pytest.raises(SourceError, match=r"^set\.arff cannot be read: .*\.$") as caught,
        reading(Path("set.arff")),
    ):
        raise error
    assert len(str(caught.value)) < 500
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [AttributeError("x"), NameError("x"), AssertionError(), TypeError(), KeyError(1)]
)
def test_errors_of_the_program_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, reading("x"):
        raise error
    assert caught.value is error
    assert not isinstance(caught.value, LabelscapeError)


def test_own_errors_and_interrupts_pass() -> None:
    for error in (ConfigError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)), reading("x"):
            raise error
