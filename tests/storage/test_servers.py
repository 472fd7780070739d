"""The token of a home's servers, and which address gets it."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from storage.errors import StoreError
from storage.servers import RECORD_FILE, Service, create_token, find_login, read_token, token_path
from storage.tracking import logins


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


class TestToken:
    def test_it_is_created_once_and_is_private(self, tmp_path: Path) -> None:
        home = tmp_path / "a" / "home"
        assert read_token(home) is None
        before = os.umask(0)
        try:
            token = create_token(home)
        finally:
            os.umask(before)
        assert mode(token_path(home)) == 0o600
        assert len(token) == 32
        assert create_token(home) == read_token(home) == token
        assert create_token(tmp_path / "b") != token

    @pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 32, b"G" * 32, b"a" * 33])
    def test_a_damaged_file_is_replaced(self, tmp_path: Path, content: bytes) -> None:
        token_path(tmp_path).write_bytes(content)
        token_path(tmp_path).chmod(0o600)
        assert read_token(tmp_path) is None
        assert create_token(tmp_path) == read_token(tmp_path)

    @pytest.mark.parametrize("bits", [0o640, 0o604, 0o666])
    def test_a_token_that_others_may_have_read_is_replaced(self, tmp_path: Path, bits: int) -> None:
        old = create_token(tmp_path)
        token_path(tmp_path).chmod(bits)
        assert create_token(tmp_path) != old
        assert mode(token_path(tmp_path)) == 0o600

    def test_a_link_is_replaced_and_its_target_is_not_written(self, tmp_path: Path) -> None:
        target = tmp_path / "elsewhere"
        target.write_text("a" * 32)
        target.chmod(0o600)
        token_path(tmp_path).symlink_to(target)
        assert create_token(tmp_path) != "a" * 32
        assert target.read_text() == "a" * 32
        assert not token_path(tmp_path).is_symlink()

    def test_a_home_that_cannot_be_written_to_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("")
        with pytest.raises(StoreError, match="home is a file where a folder is needed"):
            create_token(tmp_path / "home")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose servers are this process, on ports 4200 and 5000."""
    created = psutil.Process().create_time()
    record = {
        name: asdict(Service(name, os.getpid(), created, port, ""))
        for name, port in (("prefect", 4200), ("mlflow", 5000))
    }
    (tmp_path / RECORD_FILE).write_text(json.dumps(record))
    create_token(tmp_path)
    return tmp_path


class TestLogin:
    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:4200/api", "http://localhost:4200/api", "http://127.0.0.1:5000"]
    )
    def test_the_servers_of_the_home_get_the_token(self, home: Path, url: str) -> None:
        assert find_login(home, url) == read_token(home)

    @pytest.mark.parametrize(
        "url",
        [
            *("http://127.0.0.1:4201/api", "http://evil.example:4200/api", "http://127.0.0.1/api", ""),
            *("http://127.0.0.1.evil.example:4200", "http://127.0.0.1:4200@evil.example", "sqlite:///a.db"),
            *("http://[", "http://127.0.0.1:x", "127.0.0.1:4200"),
        ],
    )
    def test_no_other_server_gets_it(self, home: Path, url: str) -> None:
        assert find_login(home, url) is None

    def test_a_later_process_on_the_port_does_not_get_it(self, home: Path) -> None:
        content = json.loads((home / RECORD_FILE).read_text())
        content["prefect"]["created"] -= 60
        (home / RECORD_FILE).write_text(json.dumps(content))
        assert find_login(home, "http://127.0.0.1:4200/api") is None
        assert find_login(home, "http://127.0.0.1:5000") is not None


class TestLoginOfMlflow:
    OURS, OTHER = "http://127.0.0.1:5000", "http://tracker.example"

    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        yield
        logins._tokens.clear()
        logins._set_aside.clear()

    def login(self) -> tuple[str | None, str | None]:
        return os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")

    @pytest.mark.parametrize("own", [(None, None), ("me", "my password")])
    def test_each_server_gets_its_own(
        self, monkeypatch: pytest.MonkeyPatch, own: tuple[str | None, str | None]
    ) -> None:
        for name, value in zip(("USERNAME", "PASSWORD"), own, strict=True):
            monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
            if value is not None:
                monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
        logins.remember_token(self.OURS, "t" * 32)
        assert self.login() == own
        for _ in range(2):
            for _ in range(2):
                logins.log_in(self.OURS)
                assert self.login() == ("labelscape", "t" * 32)
            for _ in range(2):
                logins.log_in(self.OTHER)
                assert self.login() == own
