"""The artifact store of a configuration: a folder under the home, or an address that others share."""

import hashlib
import os
from datetime import timedelta

from flows.config import RunConfig, find_home
from storage.artifacts.store import Store
from storage.errors import ConfigError


def find_store_uri(given: str | None) -> str | None:
    """The address of a shared store: as configured, else LABELSCAPE_STORE; None without one."""
    return given or os.environ.get("LABELSCAPE_STORE") or None


def open_store(config: RunConfig, must_exist: bool = False) -> Store:
    """The store at `store.uri`, else at LABELSCAPE_STORE, else in the home folder; asks no server yet.

    With `must_exist` a home folder without a store is refused.
    """
    home, uri = find_home(config), find_store_uri(config.store.uri)
    if uri:
        from storage.artifacts.remote import Remote
        from storage.artifacts.shared_store import SharedStore

        name = hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:12]
        grace = timedelta(minutes=config.store.grace_minutes)
        return SharedStore(home / "cache" / f"store-{name}", Remote(uri), grace)
    place = home / "store"
    if must_exist and not place.is_dir():
        raise ConfigError(f"{place} is not there yet; `labelscape run` makes it, --home names another one.")
    return Store(place)
