"""Redaction of addresses: no user name and no password in a message, a record or a log."""

import re
from urllib.parse import urlsplit, urlunsplit

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def has_credentials(url: str) -> bool:
    """Return whether an address contains a user name or a password."""
    return "@" in urlsplit(url).netloc


def redact(url: str) -> str:
    """Return an address without user name and password.

    >>> redact("https://me:secret@tracker:5000/api")
    'https://tracker:5000/api'
    """
    # `urlunsplit` would drop two slashes of sqlite:////a.db, so other addresses are returned as they are.
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


def redact_text(text: str) -> str:
    """Remove user names and passwords from the addresses in a text, such as another program's message.

    >>> redact_text("no answer from http://me:secret@host:9000/bucket")
    'no answer from http://host:9000/bucket'
    """
    return _CREDENTIALS.sub("", text)
