"""Paths and addresses that a user gives: unusable ones are refused with the reason."""

import errno
from pathlib import Path

import pytest

from storage.errors import ConfigError
from storage.paths import check_address, expand_path, explain_path_error


def test_a_path_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_path("~/photos", "source") == Path("/home/me/photos")
    assert expand_path("photos/été", "source") == Path("photos/été")
    assert expand_path("x" * 255, "source").name == "x" * 255


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("~nobody-here/x", "the home folder of ~nobody-here is not known"),
        ("a\0b", "NUL"),
        ("caf\udce9", "not UTF-8"),
        ("x" * 256, "a name of 256 bytes is too long"),
        ("é" * 128, "a name of 256 bytes is too long"),
        ("x/" * 2048, "the path is too long"),
        ("ftp://host/x", "is an address"),
        ("s3://bucket/x", "copy the data to a folder"),
        ("https://me:secret@host/x", r"'https://\.\.\.' is an address"),
    ],
)
def test_a_path_that_no_file_can_have(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        expand_path(path, "--home")
    assert str(caught.value).startswith("--home ")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("address", ["http://[::1", "http://host:99999", "https://", "http://host:0", "a\0b"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match=r"tracking\.uri is not a usable address.*http://host:port"):
        check_address(address, "tracking.uri")


@pytest.mark.parametrize(
    "address", ["", "http://host:5000", "http://[::1]:80/x", "sqlite:////a.db", "s3://b/c"]
)
def test_other_addresses_pass(address: str) -> None:
    check_address(address, "tracking.uri")


def test_errors_of_the_system_that_a_user_can_fix() -> None:
    said = explain_path_error(PermissionError(errno.EACCES, "Permission denied", "/data/x"))
    assert said == "/data/x: Permission denied; change its permissions, or give another path."
    assert explain_path_error(OSError(errno.EIO, "Input/output error", "/x")) is None
    assert explain_path_error(FileNotFoundError(errno.ENOENT, "No such file", "/x")) is None
