"""Whether files hold what they held when they were written, each hashed once while it stays as it is."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from storage.artifacts.file_stats import is_settled

MISMATCH = "its data do not match the digest in its manifest"


class Verified:
    """What this process has verified so far."""

    def __init__(self) -> None:
        self._states: dict[Path, tuple[object, ...]] = {}

    def forget(self) -> None:
        """Hash every file again."""
        self._states.clear()

    def is_intact(self, path: Path, digest: str) -> bool:
        """Whether a file has this SHA-256; FileNotFoundError where it is gone."""
        with path.open("rb") as file:
            begun, status = time.time_ns(), os.fstat(file.fileno())
            state = (digest, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if self._states.get(path) == state:
                return True
            intact = hashlib.file_digest(file, "sha256").hexdigest() == digest
        if intact and is_settled(begun, status.st_mtime_ns, status.st_ctime_ns):
            self._states[path] = state
        return intact
