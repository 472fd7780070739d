"""The guard of the local servers: only their own address, their own pages, and clients with the token.

A web page in a browser on this machine can send requests to 127.0.0.1, directly or through a host name of its
own that it rebinds to 127.0.0.1. The guard refuses both. It also refuses every program that does not know the
token of the home folder, such as those of other users of the machine.

A browser logs in by a link, http://127.0.0.1:PORT/?token=TOKEN. The guard answers with a cookie and takes the
token out of the address. Programs send the token as the password of Basic, or as Bearer. Prefect's clients
send it in the first message of some of their websockets.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from storage.servers import HOST

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY_VIOLATION = 1008
_COOKIE_SECONDS = 30 * 24 * 3600
# Sets what the browser does not have yet, then opens the page that the link names after its #.
_ENTRANCE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>labelscape</title><script>
for (const [name, value] of Object.entries(PREFERENCES))
  if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
location.replace(PATH + location.hash);
</script>
"""
LOGIN_NEEDED = (
    "This server needs a login.\n\n"
    "In a browser: open the link that `labelscape up` prints.\n"
    "In a program: send the token in the file `server-token` of the home folder, with\n"
    "PREFECT_API_AUTH_STRING for Prefect or MLFLOW_TRACKING_TOKEN for MLflow.\n"
)


class Guard:
    """ASGI middleware that decides which requests reach a server.

    Parameters
    ----------
    app : callable
        The ASGI application of the server.
    token : str
        What clients have to know.
    port : int
        Port of the server, which is bound to 127.0.0.1.
    health : str
        Path that needs no token: it tells only that the server runs.
    preferences : mapping of str to str, optional
        What a browser that logs in keeps for the pages of the server, in its local storage.
    """

    def __init__(
        self, app: App, token: str, port: int, health: str, preferences: Mapping[str, str] | None = None
    ) -> None:
        self._app = app
        self._token = token
        self._health = health
        self._preferences = preferences
        self._address = f"{HOST}:{port}"
        self._hosts = (self._address, f"localhost:{port}")
        self._cookie_name = f"labelscape-{port}"
        # Prefect's pages ask a service for statistics even if these are switched off.
        policy = f"connect-src 'self' ws://{self._address} data: blob:"
        self._policy = (b"content-security-policy", policy.encode())
        # Browsers send cookies to every port of a host, so the cookie must not be the token itself.
        self._cookie = hmac.new(token.encode(), self._address.encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        names = [name for name, _ in scope["headers"]]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if names.count(b"host") != 1 or headers["host"] not in self._hosts:
            await _refuse(scope, send, f"This server answers only at http://{self._address}.\n")
        elif _is_foreign(scope, headers):
            await _refuse(scope, send, "Requests of other web pages are refused.\n")
        elif self._is_login(scope, headers):
            await self._log_in(scope, send)
        elif self._is_known(headers):
            await self._app(scope, receive, self._keep_at_home(send))
        elif scope["type"] == "websocket":
            await self._ask_first(scope, headers, receive, send)
        else:
            await self._answer_stranger(scope, headers, receive, send)

    def _keep_at_home(self, send: Send) -> Send:
        """Forbid pages to contact another server: browsers obey the header of a page."""

        async def send_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                kinds = [value for name, value in message["headers"] if name.lower() == b"content-type"]
                if any(kind.startswith(b"text/html") for kind in kinds):
                    message = {**message, "headers": [*message["headers"], self._policy]}
            await send(message)

        return send_policy

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        """Whether a request contains the token or the cookie; a browser may send another login as well."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if self._is_token(_password(given) if scheme.lower() == "basic" else given.strip()):
            return scheme.lower() in ("basic", "bearer")
        cookies = dict(one.strip().partition("=")[::2] for one in headers.get("cookie", "").split(";"))
        return _equal(cookies.get(self._cookie_name, ""), self._cookie)

    def _is_token(self, given: object) -> bool:
        return isinstance(given, str) and _equal(given, self._token)

    def _is_login(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Whether a browser opens a link of `labelscape up` or `labelscape open`."""
        if (scope.get("method"), headers["host"]) != ("GET", self._address):
            return False
        return self._is_token(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])

    async def _log_in(self, scope: Scope, send: Send) -> None:
        """Give the browser the cookie and take the token out of the address."""
        cookie = f"{self._cookie_name}={self._cookie}; Max-Age={_COOKIE_SECONDS}"
        headers = {"set-cookie": f"{cookie}; Path=/; HttpOnly; SameSite=Strict"}
        if self._preferences is None:
            await _respond(send, HTTPStatus.SEE_OTHER, "", {**headers, "location": _path(scope)})
            return
        page = _ENTRANCE.replace("PREFERENCES", json.dumps(dict(self._preferences)))
        page = page.replace("PATH", json.dumps(_path(scope)).replace("<", "\\u003c"))
        await _respond(send, HTTPStatus.OK, page, {**headers, "content-type": "text/html; charset=utf-8"})

    async def _answer_stranger(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        reads = scope["method"] in ("GET", "HEAD")
        if reads and scope["path"] == self._health:
            await self._app(scope, receive, send)
        elif reads and headers["host"] != self._address:
            # The pages use the address, and a cookie of localhost is not sent there.
            path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
            place = f"http://{self._address}{path}?{query}".rstrip("?")
            await _respond(send, HTTPStatus.TEMPORARY_REDIRECT, "", {"location": place})
        else:
            await _respond(send, HTTPStatus.UNAUTHORIZED, LOGIN_NEEDED)

    async def _ask_first(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        """Connect a websocket whose first message has to contain the token; nothing is sent before."""
        if "prefect" not in [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]:
            await _refuse(scope, send, LOGIN_NEEDED)
            return
        known = closed = False

        async def receive_known() -> Message:
            nonlocal known, closed
            message = await receive()
            if known or message["type"] != "websocket.receive":
                return message
            known = self._is_token(_token_in(message))
            if known:
                return message
            closed = True
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "Invalid token"})
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}

        async def send_known(message: Message) -> None:
            if not closed and (known or message["type"] != "websocket.send"):
                await send(message)

        await self._app(scope, receive_known, send_known)


def _is_foreign(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of another origin caused the request; a link may be followed."""
    if headers.get("origin", f"http://{headers['host']}") != f"http://{headers['host']}":
        return True
    follows_link = headers.get("sec-fetch-dest") == "document" and scope.get("method") in ("GET", "HEAD")
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not follows_link


def _path(scope: Scope) -> str:
    """The path of a request without its query; never an address of another server."""
    path = str(scope["raw_path"].decode("latin-1"))
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _password(encoded: str) -> str:
    """The password of a Basic header; Prefect's clients send the token without a user name."""
    try:
        return base64.b64decode(encoded, validate=True).decode().rpartition(":")[2]
    except ValueError:
        return ""


def _token_in(message: Message) -> object:
    """The token in the first message of one of Prefect's websockets."""
    try:
        content = json.loads(message.get("text") or message.get("bytes") or "")
    except ValueError:
        return None
    return content.get("token") if isinstance(content, dict) and content.get("type") == "auth" else None


async def _refuse(scope: Scope, send: Send, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    else:
        await _respond(send, HTTPStatus.FORBIDDEN, text)


async def _respond(
    send: Send, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None
) -> None:
    body = text.encode()
    sent = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        **(headers or {}),
    }
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": encoded})
    await send({"type": "http.response.body", "body": body})
