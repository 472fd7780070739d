"""A deployed run writes only where it was deployed to."""

from pathlib import Path
from typing import Any

import pytest

from flows.config import RunConfig
from flows.deployed_places import PLACES_VARIABLE, check_places, digest_places
from storage.errors import ConfigError

DEPLOYED: dict[str, Any] = {
    "home": "/data/home",
    "store": {"uri": "file:///shared"},
    "tracking": {"uri": "http://me:secret@tracker.example"},
}


def changed(**tables: Any) -> RunConfig:
    return RunConfig.model_validate(DEPLOYED | tables)


def test_what_is_read_and_computed_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACES_VARIABLE, digest_places(DEPLOYED))
    check_places(changed())
    check_places(changed(source={"path": "wine"}, evaluation={"folds": 3}, executor="serial"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("home", "/etc"),
        ("home", "/data/home/../other"),
        ("home", None),
        ("store", {"uri": "file:///etc"}),
        ("store", {}),
        ("tracking", {"uri": "sqlite:////etc/passwd"}),
        ("tracking", {}),
        ("notify", {"command": "rm -r /"}),
        ("notify", {"webhook": "http://elsewhere.example/hook"}),
    ],
)
def test_where_it_writes_may_not(monkeypatch: pytest.MonkeyPatch, place: str, value: Any) -> None:
    monkeypatch.setenv(PLACES_VARIABLE, digest_places(DEPLOYED))
    with pytest.raises(ConfigError, match=f"asks for another {place} than the deployment"):
        check_places(changed(**{place: value}))


@pytest.mark.parametrize(
    ("deployed", "given"),
    [
        ("auto", "dask://elsewhere.example:8786"),
        ("dask://ours.example:8786", "dask://elsewhere.example:8786"),
        ("dask://ours.example:8786", "tls://ours.example:8786"),
        ("tls://ours.example:8786", "serial"),
    ],
)
def test_the_cluster_may_not(monkeypatch: pytest.MonkeyPatch, deployed: str, given: str) -> None:
    monkeypatch.setenv(PLACES_VARIABLE, digest_places(DEPLOYED | {"executor": deployed}))
    check_places(changed(executor=deployed))
    with pytest.raises(ConfigError, match="asks for another executor than the deployment"):
        check_places(changed(executor=given))


def test_a_run_that_was_not_deployed_by_us_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACES_VARIABLE, raising=False)
    check_places(changed(home="/anywhere"))


def test_the_same_home_in_other_words_is_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PLACES_VARIABLE, digest_places({"home": str(tmp_path)}))
    check_places(RunConfig(home=f"{tmp_path}/x/.."))


def test_the_server_does_not_learn_the_addresses() -> None:
    text = digest_places(DEPLOYED)
    assert not [word for word in ("secret", "shared", "data", "tracker.example") if word in text]
