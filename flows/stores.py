"""The artifact store of a configuration: a folder under the home folder, or a shared address."""

import hashlib
import os
import shlex
from datetime import timedelta
from functools import cache
from pathlib import Path

from flows.config import RunConfig, find_home
from flows.terminal import tell
from storage.artifacts.store import ArtifactStore
from storage.credentials import enter, hide_secrets, reveal
from storage.errors import ConfigError
from storage.paths import check_address
from storage.permissions import opened_to


def find_store_uri(given: str | None) -> str | None:
    """Return the address of the shared store: as configured, else LABELSCAPE_STORE, else None."""
    uri = given or os.environ.get("LABELSCAPE_STORE")
    return enter(uri) if uri else None


def open_store(config: RunConfig, must_exist: bool = False) -> ArtifactStore:
    """Open the store at `store.uri`, else at LABELSCAPE_STORE, else in the home folder; contacts no server.

    With `must_exist` a home folder without a store raises ConfigError.
    """
    home, uri = find_home(config), find_store_uri(config.store.uri)
    warn_if_open(home)
    if uri:
        from storage.artifacts.remote import Remote

        name = hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:12]
        grace = timedelta(minutes=config.store.grace_minutes)
        check_address(uri, "store.uri")
        try:
            remote = Remote(reveal(uri))
        except (ValueError, OSError) as error:  # libraries check the address, and some connect at once
            reason = hide_secrets(str(error))
            raise ConfigError(f"store.uri cannot be used: {reason}; correct the address.") from None
        return ArtifactStore.shared(home / "cache" / f"store-{name}", remote, grace)
    place = home / "store"
    if must_exist and not place.is_dir():
        raise ConfigError(
            f"{place} does not exist yet; `labelscape run` creates it, --home selects another folder."
        )
    return ArtifactStore.local(place)


@cache
def warn_if_open(home: Path) -> None:
    """Warn once if an existing home folder lets other users in; a new one is created for its owner only."""
    if who := opened_to(home):
        tell(
            f"warning: {home} is open to {who}. Files in it are created for their owner only, but older ones "
            f"and names may be visible; close it with `chmod -R go= {shlex.quote(str(home))}`."
        )
