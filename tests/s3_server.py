"""A real server that speaks S3, on the loopback address, and a proxy in front of it that can stall."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUCKET = "bucket"
SECRET = "not-to-be-shown-anywhere"
_LINE = re.compile(r'"([A-Z]+) /(\S*?)(?:\?\S*)? HTTP/1\.1" (\d+)')


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class S3Server:
    """moto's server as a separate process; it keeps objects in memory."""

    folder: Path
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Return when it answers."""
        self._log = (self.folder / f"s3-{self.port}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **self.settings},
        )
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self.process.poll() is None, "the server ended while starting"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill it; its objects are lost."""
        self.process.kill()
        self.process.wait()
        self._log.close()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True
        return False

    def requests(self) -> list[tuple[str, str]]:
        """Every answered request as (verb, object), oldest first."""
        text = (self.folder / f"s3-{self.port}.log").read_text(encoding="utf-8", errors="replace")
        return [(verb, path) for verb, path, _ in _LINE.findall(text)]

    def files(self) -> Any:
        """A file system to inspect and change the objects directly."""
        import s3fs

        return s3fs.S3FileSystem(
            key="key",
            secret=SECRET,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@contextmanager
def s3_server(folder: Path, **settings: str) -> Iterator[S3Server]:
    """A running server with one empty bucket, or with other settings and no bucket."""
    server = S3Server(folder, settings=settings)
    server.start()
    try:
        if not settings:
            server.files().mkdir(BUCKET)
        yield server
    finally:
        server.stop()


def surroundings(port: int) -> dict[str, str]:
    """Variables that lead S3 clients to a port of this machine."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


class StallingProxy:
    """Forwards requests until one matches a pattern; of that one it forwards a part and then stalls.

    Parameters
    ----------
    port : int
        Where the server listens.
    stall_at : str
        Regular expression of the first line of the request to stall, for instance `PUT .*parquet`.
    body_bytes : int
        How much of its body is passed on.
    """

    def __init__(self, port: int, stall_at: str, body_bytes: int = 200) -> None:
        self.stalled = threading.Event()
        self._target = port
        self._pattern = re.compile(stall_at.encode())
        self._body_bytes = body_bytes
        self._clients: list[socket.socket] = []
        self._servers: list[socket.socket] = []
        self._answering: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection and accept no more; returns when the server has noticed."""
        for one in (self._listener, *self._clients):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for one in self._servers:
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        for thread in self._answering:  # each ends when the server closes its side
            thread.join(60)
            assert not thread.is_alive(), "the server does not close the connection"
        for one in self._servers:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._clients.append(client)
                self._servers.append(server)
                threading.Thread(target=self._pass_requests, args=(client, server), daemon=True).start()
                self._answering.append(
                    threading.Thread(target=self._pass_answers, args=(server, client), daemon=True)
                )
                self._answering[-1].start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        left = None
        with suppress(OSError):
            while data := client.recv(65536):
                if left is None and self._pattern.match(data):
                    head, end, body = data.partition(b"\r\n\r\n")
                    left = self._body_bytes
                    server.sendall(head + end)
                    data = body
                if left is not None:
                    data, left = data[:left], left - len(data[:left])
                server.sendall(data)
                if left == 0:
                    self.stalled.set()
                    return
            server.shutdown(socket.SHUT_WR)

    def _pass_answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
