"""Redaction: no user name and no password in messages, records and crash files."""

from pathlib import Path

import pytest

from flows.cli import _write_crash
from storage.urls import has_credentials, redact, redact_text


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://me:hush@tracker:5000/api?x=1", "https://tracker:5000/api?x=1"),
        ("https://me@tracker", "https://tracker"),
        ("postgresql://me:h@sh@host/db", "postgresql://host/db"),
        ("sqlite:////home/me/mlflow.db", "sqlite:////home/me/mlflow.db"),
        ("s3://bucket/folder@2", "s3://bucket/folder@2"),
        ("", ""),
    ],
)
def test_an_address_loses_its_credentials_and_nothing_else(url: str, redacted: str) -> None:
    assert redact(url) == redacted
    assert has_credentials(url) == (url != redacted)


def test_every_address_in_a_text_is_redacted() -> None:
    text = "http://me:hush@a/x failed, then https://hush@b:1; mail me@example.org"
    assert redact_text(text) == "http://a/x failed, then https://b:1; mail me@example.org"


def test_a_crash_file_contains_no_password(tmp_path: Path) -> None:
    file = _write_crash(RuntimeError("no answer from http://me:hush@host:9000/bucket"), tmp_path)
    text = file.read_text(encoding="utf-8")
    assert "no answer from http://host:9000/bucket" in text
    assert "hush" not in text
