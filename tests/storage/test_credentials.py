"""Credentials: kept where only their owner can read them, used for connections, hidden in texts."""

import json
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from flows.cli import _write_crash
from storage import credentials
from storage.credentials import FILE, enter, hide_secrets, keep, learn, reveal
from storage.errors import ConfigError, StoreError
from storage.tracking.client import Tracker

FULL, PUBLIC = "http://me:hu/sh-7@tracker:5000/api", "http://tracker:5000/api"
CONNECTION = "http://me:hu%2Fsh-7@tracker:5000/api"


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered from other tests, and MLflow has no login in the environment."""
    monkeypatch.setattr(credentials, "_entered", {})
    monkeypatch.setattr(credentials, "_secrets", set())
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_entered", {})


def test_an_address_enters_without_its_login_and_connects_with_it() -> None:
    assert enter(FULL) == PUBLIC
    assert enter(PUBLIC) == PUBLIC, "the address without a login does not forget the login"
    assert reveal(PUBLIC) == CONNECTION
    assert reveal("http://another") == "http://another"


@pytest.mark.parametrize(
    "address", ["http://me:12/hush@host", "https://hu/sh@host", "http://me:hush@host/a@b"]
)
def test_an_unclear_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError, match="%40") as refused:
        enter(address)
    assert "hush" not in str(refused.value)


def test_a_later_process_finds_the_login_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(enter(FULL), tmp_path)
    keep(enter("postgresql://you:other@db/x?password=z"), tmp_path)
    keep(enter("http://without"), tmp_path)
    keep(None, tmp_path)
    file = tmp_path / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(json.loads(file.read_text())) == {PUBLIC, "postgresql://db/x"}
    forget(monkeypatch)
    assert reveal(PUBLIC) == PUBLIC, "the home is not known"
    assert reveal(PUBLIC, tmp_path) == CONNECTION
    assert reveal("postgresql://db/x", tmp_path) == "postgresql://you:other@db/x?password=z"
    assert Tracker(PUBLIC, home=tmp_path).address == CONNECTION
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    assert reveal(PUBLIC, tmp_path) == PUBLIC, "MLflow takes its login from the environment"
    assert "other" in reveal("postgresql://db/x", tmp_path), "a database does not"


def test_the_latest_login_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(enter(FULL), tmp_path)
    keep(enter("http://me:changed@tracker:5000/api"), tmp_path)
    forget(monkeypatch)
    assert reveal(PUBLIC, tmp_path) == "http://me:changed@tracker:5000/api"


def test_the_file_cannot_redirect_a_connection(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({PUBLIC: {"login": "me:x@evil.example/", "tail": ""}}))
    assert reveal(PUBLIC, tmp_path) == "http://me:x%40evil.example%2F@tracker:5000/api"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {"login": "x"}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StoreError, match=r"credentials\.json: is damaged; delete it"):
        reveal(PUBLIC, tmp_path)


SECRET = 'h/u@s"hé 7'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        repr(f"me:{SECRET}"),
        json.dumps({"password": SECRET}),
        quote(SECRET),
        quote(SECRET, safe=""),
        f"http://me:{SECRET}@host",
        "Port could not be cast to integer value as 's\"hé'",
    ],
)
def test_a_library_may_quote_a_secret_in_any_form(form: str) -> None:
    enter(f"postgresql://me:{SECRET}@host/db")
    hidden = hide_secrets(f"it failed: {form} (really)")
    assert "hé" not in hidden
    assert "%C3%A9" not in hidden
    assert "u00e9" not in hidden
    assert hidden.startswith("it failed: ")


def test_secrets_of_settings_arguments_and_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    learn(["--set", "a=https://tok-1234@host", {"b": ("gs://x?sig=sig-1234",), "password": "pas-1234"}])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-1234")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:pre-1234")
    monkeypatch.setenv("ANY_URL", "http://x:env-1234@host")
    text = "tok-1234 sig-1234 pas-1234 aws-1234 pre-1234 env-1234 rest"
    assert hide_secrets(text) == "*** *** *** *** *** *** rest"


def test_short_secrets_do_not_garble_words() -> None:
    enter("http://me:iris@host")
    enter("postgresql://postgres@host/db")
    assert hide_secrets("iris and irises of postgres, 'iris'") == "*** and irises of postgres, '***'"


def test_a_crash_file_contains_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["labelscape", "--set", "tracking.uri=http://me:hush@host", "x.token=hush"]
    )
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    try:
        try:
            raise ValueError("hush")
        except ValueError as error:
            raise RuntimeError("no answer from http://me:hush@host:9000/bucket") from error
    except RuntimeError as error:
        text = _write_crash(error, tmp_path).read_text(encoding="utf-8")
    assert "no answer from http://host:9000/bucket" in text
    assert "tracking.uri=http://host" in text
    assert "hush" not in text
