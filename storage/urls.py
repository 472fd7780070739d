"""Addresses and the secrets in them: user names, passwords, tokens, queries and fragments are not shown.

Every part of an address that may be secret is cut out, also where a password contains characters that should
be percent-encoded. `storage/credentials.py` keeps what was cut out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

HIDDEN = "***"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{1,2}")
# Addresses of these kinds name a file: `@`, `:` and `#` are ordinary characters of its path.
_FILES = re.compile(r"(sqlite|file|local)\b|$")
# Databases: a login without a password is a user name; elsewhere it is a token.
_DATABASES = re.compile(r"(postgres|mysql|mariadb|mssql|oracle|sqlite)", re.IGNORECASE)
_IN_TEXT = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|https?:/)[^\s\"'<>]*")
# In an argument an address begins a value; `a/b:/c` is a path.
_IN_ARGUMENT = re.compile(rf"(?<![\w/.:-]){_SCHEME.pattern}")
# Names of settings and environment variables that contain a secret.
_SECRET_NAME = re.compile(
    r"(?:^|[._-]|PG)(?:PASS|PASSWORD|PASSWD|PWD|SECRET|TOKEN|(?:API)?KEY|AUTH|CREDENTIALS?|SIG|SIGNATURE)(?:[._-]|$)",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(r"(^PWD|[._-](FILE|PATH|DIR|SOCK))$", re.IGNORECASE)


@dataclass(frozen=True)
class AddressParts:
    """The parts of an address.

    Attributes
    ----------
    scheme : str
        With its slashes, such as `https://`; may be empty.
    login : str
        User name and password, or a token, as they were written.
    place : str
        Host, port and path.
    tail : str
        Query and fragment with their first character.
    unclear : bool
        Whether an `@` may belong to the login or to the path. It is then taken as the end of the login.
    """

    scheme: str
    login: str
    place: str
    tail: str
    unclear: bool = False

    @property
    def public(self) -> str:
        """The address without secrets."""
        return self.scheme + self.place

    @property
    def full(self) -> str:
        """The address with its secrets, percent-encoded so that every library reads the same login."""
        user, colon, password = self.login.partition(":")
        login = f"{_encode(user)}{colon}{_encode(password)}@" if self.login else ""
        return f"{self.scheme}{login}{self.place}{self.tail}"

    @property
    def secrets(self) -> set[str]:
        """Every part that must not be shown, as it was written."""
        password = self.login.partition(":")[2]
        login = "" if _DATABASES.match(self.scheme) and not password else self.login
        query, _, fragment = self.tail.lstrip("?").partition("#")
        values = [value for _, value in parse_qsl(query)] + [
            part.partition("=")[2] for part in query.split("&")
        ]
        return {part for part in (login, password, query, fragment, *values) if part}


def _encode(text: str) -> str:
    return quote(unquote(text), safe="")


def split_address(address: str) -> AddressParts:
    """Split an address; when in doubt, a part counts as secret."""
    found = _SCHEME.match(address)
    scheme = found.group() if found else ""
    rest, is_file = address[len(scheme) :], bool(_FILES.match(scheme))
    slashes = "" if is_file else rest[: len(rest) - len(rest.lstrip("/"))]
    login, place, unclear = _split_login(scheme, rest[len(slashes) :])
    end = re.search(r"\?" if is_file and scheme else r"[?#]", place)
    cut = end.start() if end else len(place)
    return AddressParts(scheme + slashes, login, place[:cut], place[cut:], unclear)


def _split_login(scheme: str, rest: str) -> tuple[str, str, bool]:
    """Login, remaining address, and whether the border between them is unclear."""
    head = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, at, place = rest.rpartition("@")
    is_http = scheme.lower().startswith("http")
    if not at or not head or not ("@" in head or ":" in head or is_http):
        return "", rest, False
    if "@" in head:
        return login, place, "@" in rest[len(head) :]
    # A password with a slash, unless the part after the colon is a port.
    port = head.rpartition(":")[2]
    return login, place, is_http and (":" not in head or port.isdecimal())


def is_address(text: str) -> bool:
    """Return whether a text begins like an address, not like a path (of Windows, `C:/x`)."""
    found = _SCHEME.match(text)
    return found is not None and len(found.group()) > len("C://")


def redact(url: str) -> str:
    """Return an address without user name, password, query and fragment.

    >>> redact("https://me:secret@tracker:5000/api?token=abc")
    'https://tracker:5000/api'
    """
    return split_address(url).public


def redact_text(text: str) -> str:
    """Redact the addresses in a text, such as another program's message.

    >>> redact_text("no answer from http://me:secret@host:9000/bucket")
    'no answer from http://host:9000/bucket'
    """
    return _IN_TEXT.sub(lambda found: redact(found.group()), text)


def redact_argument(argument: str) -> str:
    """Redact a command-line argument; its addresses may contain any character.

    >>> redact_argument("tracking.uri=http://me:my secret@host:5000")
    'tracking.uri=http://host:5000'
    """
    name, equals, value = argument.partition("=")
    if equals and value and is_secret_name(name):
        return f"{name}={HIDDEN}"
    shown, done = "", 0
    for start, end in _address_spans(argument):
        shown, done = shown + argument[done:start] + redact(argument[start:end]), end
    return shown + argument[done:]


def find_addresses(argument: str) -> list[str]:
    """Return the addresses in a command-line argument or a setting."""
    return [argument[start:end] for start, end in _address_spans(argument)]


def _address_spans(argument: str) -> Iterator[tuple[int, int]]:
    """Where addresses begin and end: at their quotes, or at the end of the argument."""
    named = re.search(r"\buri=", argument)
    if named and not _IN_ARGUMENT.search(argument):
        yield named.end(), len(argument)
        return
    position = 0
    while found := _IN_ARGUMENT.search(argument, position):
        mark = argument[found.start() - 1 : found.start()]
        closing = argument.find(mark, found.end()) if mark in ('"', "'") and mark else -1
        position = closing if closing >= 0 else len(argument)
        yield found.start(), position


def is_secret_name(name: str) -> bool:
    """Return whether a setting or environment variable of this name contains a secret.

    >>> is_secret_name("AWS_SECRET_ACCESS_KEY"), is_secret_name("SSH_AUTH_SOCK")
    (True, False)
    """
    return bool(_SECRET_NAME.search(name)) and not _NO_SECRET_NAME.search(name)
