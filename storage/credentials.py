"""Credentials of addresses: taken out where an address enters, put back only where a connection is made.

Settings, records, messages and Prefect's parameters contain addresses without credentials. This process
remembers what it cut out; a file of the home folder that only its owner can read keeps it for later runs.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from storage.artifacts.disk import make_folder, read_if_there, replace_atomically, store_errors
from storage.artifacts.locks import hold_lock
from storage.errors import ConfigError, StoreError
from storage.urls import HIDDEN, AddressParts, find_addresses, is_secret_name, redact_text, split_address

FILE = "credentials.json"
# Shorter secrets are hidden in addresses, but not searched for in other texts.
_SHORTEST = 3
# Shorter secrets are hidden only as whole words: a password `iris` must not garble `irises`.
_ANYWHERE = 8
# A hidden scheme would keep `redact_text` from recognizing the address behind it.
_SCHEMES = {"http", "https", "file", "postgresql", "mysql", "sqlite"}
_PLAIN_VALUES = {"true", "false", "none", "null", "yes", "off", "require", *_SCHEMES}
_MLFLOW_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN")

# What `enter_hook` writes in place of a path.
_HOOK = re.compile(rf"/{re.escape(HIDDEN)}[0-9a-f]{{8}}")

# By address without credentials: the parts of the address that entered last.
_entered: dict[str, AddressParts] = {}
_secrets: set[str] = set()


def enter(address: str) -> str:
    """Remember the credentials of an address and return it without them.

    Raises
    ------
    ConfigError
        It is unclear where the password ends.
    """
    parts = split_address(address)
    _learn(parts)
    if parts.unclear:
        raise ConfigError(
            f"it is unclear where the password of the address {parts.public!r} ends. Write @ as %40, "
            "and in a password also / as %2F, ? as %3F and # as %23."
        )
    if parts.login or parts.tail:
        _entered[parts.public] = parts
    return parts.public


def enter_hook(address: str) -> str:
    """Remember an address whose path is a secret as well, as that of a webhook; return its host and a digest.

    Raises
    ------
    ConfigError
        It is unclear where the password ends.
    """
    parts = split_address(address)
    host, slash, path = parts.place.partition("/")
    if _HOOK.search(parts.place) or not (path or parts.login or parts.tail):
        return address
    if parts.unclear:
        return enter(address)
    digest = hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    hidden = replace(parts, place=f"{host}/{HIDDEN}{digest}", tail=f"{slash}{path}{parts.tail}")
    _learn(hidden)
    _entered[hidden.public] = hidden
    return hidden.public


def reveal_hook(address: str, home: Path) -> str:
    """Return the address that `enter_hook` took, for a connection only."""
    return _HOOK.sub("", reveal(address, home), count=1)


def learn(values: Any) -> None:
    """Remember the secrets of all addresses in settings or arguments, to hide them in messages."""
    if isinstance(values, str):
        for address in find_addresses(values):
            _learn(split_address(address))
    elif isinstance(values, Mapping):
        for name, value in values.items():
            if isinstance(value, str) and is_secret_name(str(name)):
                _secrets.add(value)
            learn(value)
    elif isinstance(values, Iterable):
        for value in values:
            learn(value)


def _learn(parts: AddressParts) -> None:
    _secrets.update(parts.secrets)
    if ":" in parts.login:
        # The header of a request contains the login in this form.
        _secrets.add(base64.b64encode(unquote(parts.login).encode()).decode())


def reveal(address: str, home: Path | None = None) -> str:
    """Return an address with its credentials, for a connection only.

    They are those that entered this process, or else those that `keep` wrote to the home folder. A login of
    MLflow in the environment takes precedence over that file.
    """
    parts = _entered.get(address)
    from_environment = address.startswith("http") and any(map(os.environ.get, _MLFLOW_LOGIN))
    if parts is None and home is not None and not from_environment:
        parts = _read(home).get(address)
    if parts is None:
        return address
    _learn(parts)
    return parts.full


def keep(address: str | None, home: Path) -> None:
    """Write the credentials of an address, if it has any, to a file that only its owner can read.

    Later runs, `sync` and deployed flows find them there.
    """
    parts = _entered.get(address or "")
    if parts is None or _read(home).get(parts.public) == parts:
        return
    with store_errors(home / FILE):
        make_folder(home)
        with hold_lock(home / f".{FILE}.lock"):
            known = {**_read(home), parts.public: parts}
            content = {name: {"login": one.login, "tail": one.tail} for name, one in known.items()}
            with replace_atomically(home / FILE) as temporary:
                temporary.chmod(0o600)  # it is still empty
                temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _read(home: Path) -> dict[str, AddressParts]:
    data = read_if_there(home / FILE)
    try:
        # Host and path come from the address itself, so that a changed file cannot redirect a connection.
        return {
            name: replace(split_address(name), login=str(one["login"]), tail=str(one["tail"]))
            for name, one in json.loads(data or b"{}").items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{home / FILE}: is damaged; delete it and give the addresses with their passwords once more."
        ) from None


def hide_secrets(text: str) -> str:
    """Remove every known secret, and the credentials of every address, from a text such as an error message.

    Known are the secrets of addresses that entered this process and those in the environment.
    """
    forms = {form for secret in {*_secrets, *_environment_secrets()} for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _ANYWHERE:
            text = text.replace(form, HIDDEN)
        elif len(form) >= _SHORTEST and form.lower() not in _PLAIN_VALUES:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    return redact_text(text)


def _environment_secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        for address in find_addresses(value) if "://" in value else ():
            yield from split_address(address).secrets
        if is_secret_name(name):
            yield value
            yield value.partition(":")[2]  # PREFECT_API_AUTH_STRING is `user:password`


def _forms(secret: str) -> set[str]:
    """The ways in which a message may contain a secret: encoded, escaped, or cut at its separators."""
    plain = unquote(secret)
    encoded = {quote(plain, safe=""), quote(plain), quote_plus(plain)}
    encoded |= {form.lower() for form in encoded}
    escaped = {json.dumps(one)[1:-1] for one in (secret, plain)} | {
        repr(one)[1:-1] for one in (secret, plain)
    }
    return {secret, plain, *encoded, *escaped, *re.split(r"[/?#@:\s]", secret)}
