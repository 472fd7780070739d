"""The artifact store of a configuration: a folder under the home folder, or a shared address."""

import hashlib
import os
from datetime import timedelta

from flows.config import RunConfig, find_home
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError


def find_store_uri(given: str | None) -> str | None:
    """Return the address of the shared store: as configured, else LABELSCAPE_STORE, else None."""
    return given or os.environ.get("LABELSCAPE_STORE") or None


def open_store(config: RunConfig, must_exist: bool = False) -> ArtifactStore:
    """Open the store at `store.uri`, else at LABELSCAPE_STORE, else in the home folder; contacts no server.

    With `must_exist` a home folder without a store raises ConfigError.
    """
    home, uri = find_home(config), find_store_uri(config.store.uri)
    if uri:
        from storage.artifacts.remote import Remote

        name = hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:12]
        grace = timedelta(minutes=config.store.grace_minutes)
        return ArtifactStore.shared(home / "cache" / f"store-{name}", Remote(uri), grace)
    place = home / "store"
    if must_exist and not place.is_dir():
        raise ConfigError(
            f"{place} does not exist yet; `labelscape run` creates it, --home selects another folder."
        )
    return ArtifactStore.local(place)
