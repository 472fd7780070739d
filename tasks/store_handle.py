"""The store of a run as part of a job: each worker opens it itself."""

import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from embedding_core.errors import InvalidInput
from storage.artifacts.store import ArtifactStore


@dataclass(frozen=True)
class StoreHandle:
    """A store that is sent to a worker process as its folder, and to a cluster as its address.

    The worker opens it once.
    """

    store: ArtifactStore

    def __reduce__(self) -> tuple[Callable[..., "StoreHandle"], tuple[Any, ...]]:
        address = self.store.place if self.store.is_shared else None
        return open_handle, (self.store.root, address, _folder_id(self.store.root))


# A worker of a cluster keeps copies of a shared store in a folder of its own; None in all other processes.
_copies: Path | None = None


def keep_copies_in(folder: Path) -> None:
    """Open stores from now on as a worker of a cluster does, with local copies in a folder."""
    global _copies
    _copies = folder


@lru_cache(maxsize=1)
def open_handle(root: Path, address: str | None, folder_id: tuple[int, int] | None) -> StoreHandle:
    """Open the store of a handle that another process has sent."""
    if _copies is None or address is None:
        if _copies is not None and _folder_id(root) != folder_id:
            raise InvalidInput(
                f"the store {root} is a folder of the machine that started the run, and {platform.node()} "
                "does not have it. Set store.uri to an address that every worker reaches, for instance "
                "s3://bucket/folder or file:///shared/folder."
            )
        return StoreHandle(ArtifactStore.local(root))
    from storage.artifacts.remote import Remote

    return StoreHandle(ArtifactStore.shared(_copies, Remote(address)))


def _folder_id(folder: Path) -> tuple[int, int] | None:
    """Device and number of a folder, which no other folder of a machine has; None if it does not exist."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
