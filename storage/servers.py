"""The local servers of a home folder: their record, their processes, and the token that they demand.

The token is a random word in a file that only its owner can read. A program that knows it can run code as the
owner. It is passed by file or environment, never on a command line, and it is never logged.
"""

import contextlib
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from storage.artifacts.disk import read_if_there, store_errors

HOST = "127.0.0.1"
RECORD_FILE = "services.json"
TOKEN_FILE = "server-token"  # noqa: S105 (the name of a file)
_TOKEN = re.compile(r"[0-9a-f]{32}")
# Creation times are derived from the boot time, which shifts a little when the clock is adjusted.
_CREATED_TOLERANCE = 2.0


@dataclass(frozen=True)
class Service:
    """One running server; `created` distinguishes its process from a later one with the same id."""

    name: str
    pid: int
    created: float
    port: int
    log: str

    @property
    def process(self) -> psutil.Process | None:
        """Its process, or None if it has ended."""
        return find_process(self.pid, self.created)


def read_services(home: Path) -> list[Service]:
    """Return the servers started last; empty if the record is missing or was not written by `up`."""
    try:
        content = json.loads((home / RECORD_FILE).read_text(encoding="utf-8"))
        return [Service(**content["prefect"]), Service(**content["mlflow"])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Return the process with this id and creation time, or None if it has ended."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - created) > _CREATED_TOLERANCE:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            wait_for_exit(process, 0)  # reap it if it is a child of this process
            return None
        return process
    except psutil.NoSuchProcess:
        return None


def wait_for_exit(process: psutil.Process, seconds: float) -> None:
    """Wait until a process has ended or the time is up."""
    with contextlib.suppress(psutil.TimeoutExpired):
        process.wait(seconds)


def token_path(home: Path) -> Path:
    """Return the file with the token of a home."""
    return home / TOKEN_FILE


def read_token(home: Path) -> str | None:
    """Return the token of a home, or None if it has none."""
    text = (read_if_there(token_path(home)) or b"").decode(errors="replace").strip()
    return text if _TOKEN.fullmatch(text) else None


def create_token(home: Path) -> str:
    """Return the token of a home; replace a file that is damaged or that other users may have read."""
    path = token_path(home)
    with store_errors(path):
        if (found := read_token(home)) and _is_private(path):
            return found
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        token = secrets.token_hex(16)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{token}\n")
        return token


def _is_private(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def find_login(home: Path, url: str) -> str | None:
    """Return the token for a URL of a running server of this home; None for any other server."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    ours = [entry.port for entry in read_services(home) if entry.process is not None]
    return read_token(home) if host in (HOST, "localhost") and port in ours else None
