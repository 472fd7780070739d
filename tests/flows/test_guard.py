"""The guard of the local servers: who gets through, who is refused, and with which words."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from flows.guard import Guard

TOKEN, PORT = "0123456789abcdef0123456789abcdef", 4200
HERE = f"127.0.0.1:{PORT}"
Sent = list[dict[str, Any]]


async def secret_server(scope: Any, receive: Any, send: Any) -> None:
    """A server that tells its secret to every request that reaches it; its websockets speak first."""
    if scope["type"] == "http":
        kind = b"text/html; charset=utf-8" if scope["path"].endswith(".html") else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", kind)]})
        await send({"type": "http.response.body", "body": b"secret"})
        return
    await send({"type": "websocket.accept", "subprotocol": "prefect"})
    await send({"type": "websocket.send", "text": "too early"})
    if (await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": "secret"})


def talk(
    scope: dict[str, Any], headers: list[tuple[str, str]], *messages: str, guard: Guard | None = None
) -> Sent:
    """Send a request through the guard and return what comes back."""
    sent: Sent = []
    waiting = [{"type": "websocket.receive", "text": text} for text in messages]

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Any) -> None:
        sent.append(message)

    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    guard = guard or Guard(secret_server, TOKEN, PORT, "/health")
    asyncio.run(guard(scope | {"headers": encoded}, receive, send))
    return sent


def ask(
    path: str = "/api/flows",
    method: str = "GET",
    host: str | None = HERE,
    guard: Guard | None = None,
    **headers: str,
) -> tuple[int, str, Mapping[str, str]]:
    """Status, text and headers of an answer."""
    place, _, query = path.partition("?")
    given = [("Host", host)] if host is not None else []
    given += [(name.replace("_", "-"), value) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": place, "raw_path": place.encode()}
    start, body = talk(scope | {"query_string": query.encode()}, given, guard=guard)
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], body["body"].decode(), found


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def log_in() -> str:
    """The cookie that the link of `labelscape up` gives to a browser."""
    status, _, headers = ask(f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    return headers["set-cookie"]


def test_a_page_may_not_contact_other_servers() -> None:
    login = f"Bearer {TOKEN}"
    policy = ask("/index.html", Authorization=login)[2]["content-security-policy"]
    assert policy == f"connect-src 'self' ws://{HERE} data: blob:"
    assert "content-security-policy" not in ask("/api/flows", Authorization=login)[2]


class TestPrograms:
    @pytest.mark.parametrize(
        "login", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN), basic(f"labelscape:{TOKEN}")]
    )
    def test_the_token_opens(self, login: str) -> None:
        assert ask(Authorization=login)[:2] == (200, "secret")
        assert ask(Authorization=login, method="DELETE", host=f"localhost:{PORT}")[:2] == (200, "secret")

    @pytest.mark.parametrize(
        "login",
        [
            *("", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", "Bearer \xe4", TOKEN),
            *("Basic", "Basic ???", "Basic w6Q", basic(""), basic(f"{TOKEN}:"), f"Digest {TOKEN}"),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_anything_else_does_not(self, login: str, method: str) -> None:
        status, text, _ = ask(method=method, Authorization=login)
        assert status == 401
        assert "open the link that `labelscape up` prints" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_only_reading_the_health_needs_no_token(self) -> None:
        assert ask("/health")[0] == 200
        assert ask("/health", method="POST")[0] == 401
        for path in ("/health/", "/api/health", "//health", "/api/../health", "/"):
            assert ask(path)[0] == 401


class TestOtherPages:
    """A page of another origin is refused even if the browser sends the cookie, or knows the token."""

    @pytest.mark.parametrize(
        "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", "", None, f"{HERE}."]
    )
    @pytest.mark.parametrize("path", ["/", "/health", "/api/flows", f"/?token={TOKEN}"])
    def test_another_host_is_refused(self, host: str | None, path: str) -> None:
        status, text, headers = ask(path, host=host, Authorization=f"Bearer {TOKEN}", Cookie=log_in())
        assert status == 403
        assert f"only at http://{HERE}" in text
        assert "set-cookie" not in headers

    def test_two_hosts_are_refused(self) -> None:
        scope = {"type": "http", "method": "GET", "path": "/health", "query_string": b""}
        for hosts in ((HERE, "evil.example"), ("evil.example", HERE)):
            assert talk(scope, [("Host", host) for host in hosts])[0]["status"] == 403

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "null",
            "",
            f"https://{HERE}",
            "http://127.0.0.1:8888",
            f"http://localhost:{PORT}",
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
    def test_another_origin_is_refused(self, origin: str, method: str) -> None:
        status, _, headers = ask("/health", method, Origin=origin, Cookie=log_in())
        assert status == 403
        assert not [name for name in headers if name.startswith("access-control")]

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
    @pytest.mark.parametrize("kind", ["image", "iframe", "script", "empty"])
    def test_a_part_of_another_page_is_refused(self, site: str, kind: str) -> None:
        assert ask(Cookie=log_in(), Sec_Fetch_Site=site, Sec_Fetch_Dest=kind)[0] == 403

    def test_a_link_may_be_followed_but_a_form_may_not_be_sent(self) -> None:
        page = {"Cookie": log_in(), "Sec_Fetch_Site": "same-site", "Sec_Fetch_Dest": "document"}
        assert ask(**page)[0] == 200
        assert ask(method="POST", **page)[0] == 403


class TestBrowser:
    def test_the_link_gives_a_cookie_that_opens(self) -> None:
        cookie = log_in()
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {one.strip() for one in cookie.split(";")}
        assert TOKEN not in cookie
        pair = cookie.partition(";")[0]
        assert ask(Cookie=f"theme=dark; {pair}")[:2] == (200, "secret")
        assert ask(Cookie=pair, Authorization=basic("of another server"))[:2] == (200, "secret")
        page = {"Origin": f"http://{HERE}", "Sec_Fetch_Site": "same-origin"}
        assert ask(method="POST", Cookie=pair, **page)[0] == 200

    def test_the_link_hides_the_token_every_time(self) -> None:
        status, _, headers = ask(f"/?token={TOKEN}", Cookie=log_in())
        assert (status, headers["location"]) == (303, "/")

    @pytest.mark.parametrize(
        ("path", "place"),
        [("/runs/flow-run/7", "/runs/flow-run/7"), ("//evil.example", "/"), ("/\\evil.example", "/")],
    )
    def test_a_link_to_a_page_stays_on_this_server(self, path: str, place: str) -> None:
        status, _, headers = ask(f"{path}?token={TOKEN}")
        assert (status, headers["location"]) == (303, place)
        assert "set-cookie" in headers

    def test_preferences_reach_the_browser(self) -> None:
        guard = Guard(secret_server, TOKEN, PORT, "/health", {"theme": '"dark"'})
        status, page, headers = ask(f"/</script>?token={TOKEN}", guard=guard)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "set-cookie" in headers
        assert json.dumps({"theme": '"dark"'}) in page
        assert page.count("</script>") == 1
        assert TOKEN not in page

    @pytest.mark.parametrize("path", ["/?token=", f"/?token={TOKEN}0", f"/?key={TOKEN}", "/x?token=0"])
    def test_another_link_does_not(self, path: str) -> None:
        status, _, headers = ask(path)
        assert status == 401
        assert "set-cookie" not in headers

    @pytest.mark.parametrize("cookie", ["", "{}", "{}=", f"{{}}={TOKEN}", ";=", "=;{}==", "{}=0; {}"])
    def test_another_cookie_does_not(self, cookie: str) -> None:
        assert ask(Cookie=cookie.replace("{}", f"labelscape-{PORT}"))[0] == 401

    def test_the_cookie_of_another_server_does_not(self) -> None:
        value = log_in().partition(";")[0].partition("=")[2]
        other = Guard(secret_server, TOKEN, PORT + 1, "/health")
        assert other._cookie != value

    def test_localhost_leads_to_the_address(self) -> None:
        status, _, headers = ask(f"/?token={TOKEN}", host=f"localhost:{PORT}")
        assert (status, headers["location"]) == (307, f"http://{HERE}/?token={TOKEN}")
        assert ask("/api/flows", "POST", host=f"localhost:{PORT}")[0] == 401


class TestWebsockets:
    """Prefect's clients send the token as a header or in the first message; browsers send the cookie."""

    AUTH = json.dumps({"type": "auth", "token": TOKEN})

    def talk(self, *messages: str, **headers: str) -> list[Any]:
        given = {"Host": HERE, "Sec_WebSocket_Protocol": "chat, prefect"} | headers
        pairs = [(name.replace("_", "-"), value) for name, value in given.items()]
        sent = talk({"type": "websocket", "path": "/api/events/in"}, pairs, *messages)
        return [one.get("text") or one.get("code") or one["type"] for one in sent]

    def test_the_first_message_may_contain_the_token(self) -> None:
        assert self.talk(self.AUTH) == ["websocket.accept", "secret"]

    @pytest.mark.parametrize(
        "first",
        [
            *("", "x", "[]", "null", '{"type": "auth"}', '{"type": "auth", "token": null}'),
            *('{"type": "auth", "token": "wrong"}', json.dumps({"type": "subscribe", "token": TOKEN})),
        ],
    )
    def test_any_other_first_message_ends_it(self, first: str) -> None:
        assert self.talk(first, self.AUTH) == ["websocket.accept", 1008]

    def test_a_header_or_the_cookie_opens_at_once(self) -> None:
        for known in ({"Authorization": basic(TOKEN)}, {"Cookie": log_in().partition(";")[0]}):
            assert self.talk("anything", **known) == ["websocket.accept", "too early", "secret"]

    @pytest.mark.parametrize(
        "wrong",
        [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec_WebSocket_Protocol": "chat"}],
    )
    def test_others_are_not_connected(self, wrong: dict[str, str]) -> None:
        assert self.talk(self.AUTH, **wrong) == [1008]


def test_start_and_stop_of_the_server_pass() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Guard(app, TOKEN, PORT, "/health")({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
