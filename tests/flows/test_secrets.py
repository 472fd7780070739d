"""Secrets planted through every entrance are neither printed nor written; fast commands without servers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.config import load_config
from flows.config_text import show_config
from flows.prefect_settings import prepare_engine
from flows.schedule import _parameters
from flows.stores import find_store_uri
from storage import credentials
from storage.errors import ConfigError, ServiceDown
from storage.urls import is_address
from tests.conftest import Command
from tests.secrets_search import PASSWORDS, as_toml, find_leaks, login_address, read_everything

LOGINS = [login_address(kind, "tracker.invalid:5000") for kind in PASSWORDS]
ADDRESSES = [
    *LOGINS,
    "https://Zqxj20token@tracker.invalid",
    "https://Zqxj21to/Zqxj21ken@tracker.invalid",
    "http://me:12/Zqxj22password@tracker.invalid",
    "https://tracker.invalid/?token=Zqxj23token&X-Amz-Signature=Zqxj23signature",
    "https://tracker.invalid/#Zqxj24fragment",
    "postgresql://me:Zqxj25left/Zqxj25right@db.invalid/mlflow?password=Zqxj25again",
    "me:Zqxj26password@tracker.invalid",
    "http:/me:Zqxj27password@tracker.invalid",
    "file:///nowhere?secret=Zqxj28secret",
    "nosuch://me:Zqxj29password@place",
]


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(credentials, "_entered", {})
    monkeypatch.setattr(credentials, "_secrets", set())
    yield


def check(command: Command, folder: Path, *arguments: str, given: tuple[Path, ...] = ()) -> str:
    """Run a command, search what it printed and wrote, and return what it printed."""
    try:
        done = command(*arguments)
        out, err = done.out, done.err
    except SystemExit:  # argparse
        out, err = "", ""
    printed = [("stdout", out), ("stderr", err)]
    assert find_leaks([*printed, *read_everything(folder, given)]) == []
    return out + err


@pytest.mark.parametrize("address", ADDRESSES)
class TestAddresses:
    def test_settings_and_records_contain_no_secret(self, address: str) -> None:
        try:
            config = load_config(None, [f"tracking.uri={address}"])
        except ConfigError as error:
            assert find_leaks([("error", str(error))]) == []
            return
        shown = [repr(config), str(config.model_dump()), config.model_dump_json(), show_config(config)]
        assert find_leaks([("config", text) for text in shown]) == []

    def test_refusals_repeat_no_secret(self, address: str, command: Command, tmp_path: Path) -> None:
        for given in (
            f"tracking.uri=[{address!r}]",
            f"tracking={address}",
            f"tracking.url={address}",
            f"store.uri={address}",
            f"executor={address}",
            f"{address}=1",
            address,
        ):
            check(command, tmp_path, "config", "--set", given)
        check(command, tmp_path, "status", "--set", f"store.uri={address}")
        check(command, tmp_path, "status", address)
        check(command, tmp_path, "compare", "--sort-by", address)

    def test_a_file_keeps_its_secrets(self, address: str, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "my.toml"
        for text in (
            as_toml(tracking={"uri": address}, store={"uri": address}),
            as_toml(tracking={"url": address}),
            as_toml(source={"path": address if is_address(address) else "nowhere"}),
            as_toml(tracking={"uri": address}) + "[tracking",
        ):
            file.write_text(text, encoding="utf-8")
            for arguments in (("config", "my.toml"), ("status", "my.toml")):
                assert check(command, tmp_path, *arguments, given=(file,))


def test_arguments_that_do_not_exist_are_not_repeated_with_their_password(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in ADDRESSES:
        if " " in address:  # argparse takes it for the source
            continue
        check(command, tmp_path, "status", f"--sett=tracking.uri={address}")
        printed = capsys.readouterr().err
        assert "unrecognized arguments: --sett=" in printed
        assert find_leaks([("stderr", printed)]) == []


def test_a_store_in_the_environment_is_not_repeated(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in (
        *LOGINS,
        "s3://key:Zqxj40left/Zqxj40right@bucket/x",
        f"file://{tmp_path}/x?secret=Zqxj41secret",
    ):
        monkeypatch.setenv("LABELSCAPE_STORE", address)
        assert find_leaks([("address", find_store_uri(None) or "")]) == []
        assert "store.uri" in check(command, tmp_path, "status", "iris")


@pytest.mark.parametrize("setting", ["tracking", "tracking.uri", "store", "store.uri"])
def test_a_table_with_an_address_is_refused_without_its_value(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"{setting}: .* \(got a list\)") as refused:
        load_config(None, [f"{setting}=['Zqxj44password']"])
    assert find_leaks([("error", str(refused.value))]) == []


def test_an_error_of_the_configuration_contains_no_secret() -> None:
    for address in filter(is_address, ADDRESSES):
        with pytest.raises(ConfigError, match="executor") as refused:
            load_config(None, [f"executor={address}"])
        assert find_leaks([("error", str(refused.value))]) == []


@pytest.mark.parametrize(
    ("given", "login"),
    [
        (
            "http://admin:Zqxj42left/Zqxj42right@127.0.0.1:9/api?token=Zqxj43token",
            "admin:Zqxj42left/Zqxj42right",
        ),
        ("http://admin:Zqxj42left%40Zqxj42right@127.0.0.1:9/api", "admin:Zqxj42left@Zqxj42right"),
        ("http://127.0.0.1:9/api", None),
    ],
)
def test_prefect_gets_its_login_apart_from_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, login: str | None
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", given)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    with pytest.raises(ServiceDown, match=r"no Prefect server answers at http://127\.0\.0\.1:9/api ") as down:
        prepare_engine(tmp_path)
    assert find_leaks([("error", str(down.value))]) == []
    assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:9/api"
    assert os.environ.get("PREFECT_API_AUTH_STRING") == login


def test_parameters_of_a_deployment_contain_no_secret(tmp_path: Path) -> None:
    address = login_address("slash", "tracker.invalid:5000")
    for config in (load_config(None, [f"tracking.uri={address}"]), {"tracking": {"uri": address}}):
        home = {"home": str(tmp_path)}
        given = {**config, **home} if isinstance(config, dict) else config.model_copy(update=home)
        parameters = _parameters(given)
        assert parameters["config"]["tracking"]["uri"] == "http://tracker.invalid:5000"
        assert find_leaks([("parameters", str(parameters))]) == []
        credentials._entered.clear()
        kept = credentials.reveal("http://tracker.invalid:5000", tmp_path)
        assert kept == "http://me:Zqxj1left%2FZqxj1right@tracker.invalid:5000"
        (tmp_path / credentials.FILE).unlink()
