"""Logins of tracking servers: the tokens of this home's own server, and what MLflow's client reads."""

import base64
import os
from urllib.parse import unquote, urlsplit

from storage.errors import TrackingError
from storage.servers import TOKEN_FILE
from storage.urls import redact

REFUSALS = (401, 403)
# Variables in which MLflow's client expects the login of a server.
_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
# Tokens of the servers of this home, by address; values of the user's variables while such a server is used.
_tokens: dict[str, str] = {}
_set_aside: dict[str, str | None] = {}


def remember_token(uri: str, token: str) -> None:
    """Use a token as the login of one server, and of no other."""
    _tokens[redact(uri)] = token


def log_in(uri: str) -> None:
    """Prepare the login of MLflow's client for a server: its token, else the variables of the user."""
    token = _tokens.get(redact(uri))
    if token is not None:
        for name, value in zip(_LOGIN, ("labelscape", token), strict=True):
            _set_aside.setdefault(name, os.environ.get(name))
            os.environ[name] = value
        return
    for name, kept in _set_aside.items():
        os.environ.pop(name, None)
        if kept is not None:
            os.environ[name] = kept
    _set_aside.clear()


def login_headers(uri: str) -> dict[str, str]:
    """Return the header that MLflow's own client would send."""
    parts = urlsplit(uri)
    log_in(uri)
    user = unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    if user and password:
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def login_needed(uri: str, status: int) -> TrackingError:
    """Return the error of a server that does not accept the login of this program."""
    return TrackingError(
        f"tracking server {redact(uri)} demands a login (it answers {status}). Set MLFLOW_TRACKING_USERNAME "
        "and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN. If `labelscape up` started it for another "
        f'home folder: MLFLOW_TRACKING_TOKEN="$(cat THAT_FOLDER/{TOKEN_FILE})".'
    )
