"""Text and paths that a user gives, checked where they enter: what no file system can hold is refused."""

import errno
import os
from pathlib import Path
from urllib.parse import urlsplit

from storage.errors import ConfigError
from storage.urls import redact

MAX_TEXT = 4096
"""Longest text that an argument or a setting may have, in characters; longer ones are mistakes."""
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_ADVICE = {
    errno.EACCES: "change its permissions, or give another path",
    errno.EPERM: "change its permissions, or give another path",
    errno.EROFS: "give a path on a disk that can be written",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "its links point to each other; give the path of a real file or folder",
    errno.ENOTDIR: "a part of the path is a file; give another path",
    errno.EISDIR: "it is a folder; give the path of a file",
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some space and run again",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine; close some programs",
}
_MAX_NAME = 255
_MAX_PATH = 4095


def find_text_problem(text: str) -> str | None:
    """Say why a text cannot be used as an argument, a setting or a name; None if it can.

    >>> find_text_problem("photos"), find_text_problem("photos" + chr(0))
    (None, 'contains a NUL character; leave it out')
    """
    if "\0" in text:
        return "contains a NUL character; leave it out"
    if len(text) > MAX_TEXT:
        return f"has {len(text)} characters; give at most {MAX_TEXT}"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "contains bytes that are not UTF-8 text; rename the file or folder, or correct the text"
    return None


def expand_path(given: str, named: str) -> Path:
    """Return a path with `~` expanded; it need not exist.

    Parameters
    ----------
    given : str
        The path as the user wrote it.
    named : str
        The option, setting or variable that it comes from, for messages.

    Raises
    ------
    ConfigError
        No file or folder can have this path.
    """
    scheme, found, _ = given.partition("://")
    if found and scheme.isalnum():  # not repeated as a whole: it may contain a password
        raise ConfigError(
            f"{named} '{scheme}://...' is an address; copy the data to a folder of this machine and give "
            "its path."
        )
    problem = find_text_problem(given) or _find_path_problem(given)
    if problem:
        raise ConfigError(f"{named} {shorten_middle(given)!r}: {problem}.")
    try:
        path = Path(given).expanduser()
    except RuntimeError:
        user = Path(given).parts[0]
        raise ConfigError(
            f"{named} {given!r}: the home folder of {user} is not known; give the path without ~."
        ) from None
    return path


def _find_path_problem(path: str) -> str | None:
    longest = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    if longest > _MAX_NAME:
        return f"a name of {longest} bytes is too long for a file or folder, at most {_MAX_NAME} are allowed"
    if len(os.fsencode(path)) > _MAX_PATH:
        return f"the path is too long, at most {_MAX_PATH} bytes are allowed"
    return None


def check_address(address: str, named: str) -> None:
    """Reject an address that cannot be read as one; it is not repeated, because it may contain a password."""
    problem = find_text_problem(address)
    try:
        parts = urlsplit(redact(address))  # a password may look like a port
        if parts.scheme in ("http", "https") and not parts.hostname:
            problem = "it names no host"
        problem = problem or ("the port must be at least 1" if parts.port == 0 else None)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ConfigError(
            f"{named} is not a usable address: {problem}. Give for instance http://host:port, "
            "sqlite:////folder/mlflow.db or s3://bucket/folder."
        )


def explain_path_error(error: OSError) -> str | None:
    """Explain an error of the operating system that the user can fix; None for any other."""
    if error.errno not in _ADVICE:
        return None
    place = f"{shorten_middle(str(error.filename), 300)}: " if error.filename is not None else ""
    return f"{place}{error.strerror}; {_ADVICE[error.errno]}."


def shorten_middle(text: str, most: int = 80) -> str:
    """Cut the middle of a long text.

    >>> shorten_middle("a" * 100, 10)
    'aaaaa...aaaaa'
    """
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 2) :]}"
