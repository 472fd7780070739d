"""A server that relays requests to another one, unless they are refused."""

import contextlib
import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message

HANG_UP = -1


@contextlib.contextmanager
def relaying(target: str, refuse: Callable[[Message], int | None], token: str | None = None) -> Iterator[str]:
    """Yield the address of a relay; `refuse` returns None, a status code to answer, or HANG_UP.

    `token` replaces the login of a request, for a target with a login of its own.
    """

    class Relay(http.server.BaseHTTPRequestHandler):
        def _relay(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size) if size else None
            code = refuse(self.headers)
            if code == HANG_UP:
                self.close_connection = True
                self.connection.close()
            elif code is not None:
                self._answer(code, b"refused")
            else:
                self._answer(*self._forward(body))

        def _forward(self, body: bytes | None) -> tuple[int, bytes]:
            passed = ("Content-Type", "Authorization")
            headers = {name: self.headers[name] for name in passed if self.headers[name]}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            request = urllib.request.Request(target + self.path, body, headers, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()

        def _answer(self, code: int, data: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = _relay  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            """Silence."""

    relay = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{relay.server_address[1]}"
    finally:
        relay.shutdown()
        relay.server_close()
