"""Text from outside: nothing of it can steer a terminal or hide from a reader."""

import json
import shlex
import subprocess
import tomllib

import pytest

from tasks.safe_text import cut_text, escape_json, escape_toml, join_words, printable, printable_lines

UNSAFE = {
    "escape": "\x1b",
    "bell": "\a",
    "backspace": "\b",
    "carriage return": "\r",
    "line feed": "\n",
    "NUL": "\0",
    "DEL": "\x7f",
    "C1 control sequence": "\x9b",
    "C1 operating system command": "\x9d",
    "soft hyphen": "\xad",
    "zero width space": "\u200b",
    "zero width joiner after ASCII": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "right-to-left mark": "\u200f",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "Arabic letter mark": "\u061c",
    "line separator": "\u2028",
    "Hangul filler": "\u3164",
    "tag": "\U000e0041",
    "undecodable byte": "\udcff",
}
every_unsafe = pytest.mark.parametrize("unsafe", UNSAFE.values(), ids=UNSAFE)


@every_unsafe
def test_an_unsafe_character_becomes_visible(unsafe: str) -> None:
    assert printable(f"a{unsafe}b") == "a\ufffdb"


@pytest.mark.parametrize(
    "text", ["été ✓ 日本語", "👩\u200d🌾", "می\u200cخواهم", "[red]x[/red]", "a b\u00a0c", "±↑"]
)
def test_other_text_stays(text: str) -> None:
    assert printable(text) == escape_json(text) == escape_toml(text) == text


def test_lines_stay_and_tabs_become_spaces() -> None:
    assert printable_lines("a\tb\n\x1bc\r\n") == "a b\n\ufffdc\ufffd\n"


@every_unsafe
def test_json_reads_back_as_the_same_text(unsafe: str) -> None:
    text = escape_json(json.dumps([f"a{unsafe}b"], indent=2, ensure_ascii=False))
    assert printable_lines(text) == text
    assert json.loads(text) == [f"a{unsafe}b"]


@pytest.mark.parametrize("unsafe", ["\x9b", "\u202e", "\U000e0041"])
def test_toml_reads_back_as_the_same_text(unsafe: str) -> None:
    text = escape_toml(f'key = "a{unsafe}b"\nother = 1')
    assert printable_lines(text) == text
    assert tomllib.loads(text) == {"key": f"a{unsafe}b", "other": 1}


def test_a_pasted_command_has_the_same_words() -> None:
    words = ["run", "my photos", "d'été", "a\x1b[31m", "it's\x1b\\", "\u202e", "", "plain"]
    text = join_words(words)
    assert printable(text) == text
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert shown.stdout.decode().split("\0")[:-1] == words
    assert join_words(words[:3]) == shlex.join(words[:3])


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = cut_text("labelscape: " + "x" * 6_000_000 + "; give a shorter name.", 1000)
    assert len(text) < 1100
    assert text.startswith("labelscape: xxx")
    assert text.endswith("xxx; give a shorter name.")
    assert "... (5999034 more characters) ..." in text
    assert cut_text("short", 5) == "short"
