"""Addresses of shared stores: which are accepted, and the messages for the others."""

import importlib
import sys
from pathlib import Path

import pytest

from flows.config import RunConfig, load_config, repeat_config
from flows.run_settings import resolved_config
from flows.stores import open_store
from storage.artifacts.remote import Remote
from storage.artifacts.run_log import LoggedRun
from storage.errors import ConfigError, StoreUnreachable


@pytest.mark.parametrize("uri", ["", "bucket/folder", "/shared/folder", "s3://", "s3:bucket"])
def test_an_invalid_address_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="expected for instance s3://bucket/folder"):
        Remote(uri)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"store.uri 'nosuch://place'.*nosuch"):
        Remote("nosuch://place")


@pytest.mark.parametrize("uri", ["s3://user:hush@bucket/folder", "s3://hush@bucket", "sftp://me:hush@host/x"])
def test_credentials_in_an_address_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(ConfigError, match="contains a user name or a password") as refused:
        Remote(uri)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "package", "extra"), [("s3://b/f", "s3fs", "s3"), ("gs://b/f", "gcsfs", "gcs")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, uri: str, package: str, extra: str
) -> None:
    kinds = importlib.import_module("fsspec.registry")._registry
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(kinds, uri.partition(":")[0], raising=False)
    with pytest.raises(ConfigError) as refused:
        Remote(uri)
    assert f'pip install "labelscape[{extra}]"' in str(refused.value)


@pytest.mark.slow
def test_an_s3_server_that_does_not_answer_is_reported_after_seconds() -> None:
    pytest.importorskip("s3fs", reason="needs the test extra: pip install labelscape[test]")
    files = Remote("s3://bucket/folder")._files
    assert files.config_kwargs["connect_timeout"] <= 5
    assert files.retries * files.config_kwargs["retries"]["max_attempts"] <= 3


def test_addresses_in_messages_of_others_lose_their_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(f"file://{tmp_path}")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no answer from http://me:hush@host:9000/bucket\n  at all")

    monkeypatch.setattr(remote._files, "cat_file", fail)
    monkeypatch.setattr("storage.credentials._secrets", {"http"})  # a password that is also a scheme
    with pytest.raises(StoreUnreachable) as reported:
        remote.read("name")
    text = str(reported.value)
    assert "hush" not in text
    assert f"file://{tmp_path}" in text
    assert "RuntimeError: no answer from http://host:9000/bucket at all" in text


def test_objects_beside_the_folder_are_not_listed(tmp_path: Path) -> None:
    Remote(f"file://{tmp_path}/store-2").write("runs/a.json", b"1")
    inside = Remote(f"file://{tmp_path}/store/")
    assert inside.list_objects() == {}
    inside.write("runs/b.json", b"22")
    assert {name: one.size for name, one in inside.list_objects().items()} == {"runs/b.json": 2}
    assert inside.list_objects("nowhere") == {}
    assert Remote(f"file://{tmp_path}/store/runs/b.json").list_objects() == {}


def test_missing_objects(tmp_path: Path) -> None:
    remote = Remote(f"file://{tmp_path}")
    assert remote.read("a") is None
    assert remote.stat("a") is None
    assert remote.digest("a") is None
    assert remote.read_many(["a", "b"]) == {}
    assert not remote.download("a", tmp_path / "copy")
    remote.remove("a")
    remote.copy("a", "b")
    assert remote.list_objects() == {}


class TestSetting:
    def test_the_home_folder_is_the_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LABELSCAPE_STORE", raising=False)
        store = open_store(RunConfig(home=str(tmp_path)))
        assert not store.is_shared
        assert store.root == tmp_path / "store"
        with pytest.raises(ConfigError, match="does not exist yet"):
            open_store(RunConfig(home=str(tmp_path)), must_exist=True)

    def test_the_configuration_takes_precedence_over_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LABELSCAPE_STORE", "memory://theirs/")
        store = open_store(RunConfig(home=str(tmp_path)), must_exist=True)
        assert store.is_shared
        assert store.place == "memory://theirs"
        mine = open_store(load_config(None, ["store.uri=memory://mine"], home=str(tmp_path)))
        assert mine.place == "memory://mine"
        assert mine.root != store.root
        assert mine.root.parent == tmp_path / "cache"

    def test_a_run_is_repeated_with_the_store_of_this_place(self, tmp_path: Path) -> None:
        run = LoggedRun("n", "e", "wine", resolved_config(RunConfig()), {})
        here = load_config(None, ["store.uri=memory://mine"], home=str(tmp_path))
        assert open_store(repeat_config(run, here)).place == "memory://mine"

    def test_the_store_is_not_part_of_the_identity_of_a_run(self) -> None:
        shared = load_config(None, ["store.uri=s3://bucket/x", "store.grace_minutes=1"])
        assert resolved_config(shared) == resolved_config(RunConfig())
