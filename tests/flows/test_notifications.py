"""Notices: a real web server receives them, a real program reads them, and secrets stay out of everything."""

import email
import email.message
import http.server
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.config import RunConfig, load_config
from flows.notifications import Notice, send
from storage.credentials import hide_secrets, keep, reveal_hook
from storage.errors import ConfigError
from tests.conftest import local_config

NOTICE = Notice("drop", "photos", "macro F1 went from 0.800 to 0.600.", {"runs": {"auto": "abc"}})


class Inbox(http.server.ThreadingHTTPServer):
    """A web server that keeps what is posted to it."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers)
        self.server.received.append({"path": self.path, "headers": headers, "body": json.loads(body)})
        self.send_response(500 if self.path.startswith("/broken") else 200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Be quiet."""


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server that keeps its mail; it does not know recipients at `nowhere`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.received: list[email.message.Message] = []
        super().__init__(("127.0.0.1", 0), _Mail)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Mail(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline().upper():
            if line.startswith(b"DATA"):
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.received.append(email.message_from_bytes(b"".join(lines)))
            self._say("550 unknown" if b"@NOWHERE" in line else "250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Prefect's address no event is sent."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def configured(home: Path, **notify: Any) -> RunConfig:
    return load_config(None, home=str(home), notify=notify)


@pytest.mark.slow
def test_a_webhook_receives_the_notice_and_its_path_is_a_secret(inbox: Inbox, tmp_path: Path) -> None:
    path = "/services/T0001/B0002/verysecretword?key=anotherone"
    config = configured(tmp_path, webhook=f"http://me:passw0rd@{inbox.address}{path}")
    warnings: list[str] = []
    send(config, NOTICE, warnings.append)
    (got,) = inbox.received
    assert warnings == []
    assert got["path"] == path
    assert got["headers"]["Authorization"] == "Basic bWU6cGFzc3cwcmQ="
    assert got["body"]["event"] == "labelscape.drop"
    assert got["body"]["text"].startswith("labelscape: photos: scores dropped")
    assert got["body"]["facts"] == {"runs": {"auto": "abc"}}
    shown = config.model_dump_json()
    assert inbox.address in shown
    for secret in ("verysecretword", "T0001", "passw0rd", "anotherone"):
        assert secret not in shown
        assert secret not in hide_secrets(f"failed at /services/T0001/B0002/verysecretword with {secret}")


@pytest.mark.slow
def test_two_hooks_of_one_host_are_kept_apart(inbox: Inbox, tmp_path: Path) -> None:
    addresses = [f"http://{inbox.address}/{name}" for name in ("first-channel", "second-channel")]
    hooks = [configured(tmp_path, webhook=address).notify.webhook for address in addresses]
    for hook in hooks:
        keep(hook, tmp_path)
    assert len(set(hooks)) == 2
    assert (tmp_path / "credentials.json").stat().st_mode & 0o077 == 0
    from storage import credentials

    credentials._entered.clear()  # as in the process of a deployed run
    assert [reveal_hook(hook or "", tmp_path) for hook in hooks] == addresses


def test_a_program_reads_the_notice(tmp_path: Path) -> None:
    script = tmp_path / "hook.py"
    script.write_text(f"import sys; open({str(tmp_path / 'got.json')!r}, 'w').write(sys.stdin.read())")
    send(configured(tmp_path, command=f"{sys.executable} {script}"), NOTICE, pytest.fail)
    assert json.loads((tmp_path / "got.json").read_text())["text"] == NOTICE.text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # imported by Apprise
class TestMail:
    @pytest.fixture
    def mailbox(self, engine: str) -> Iterator[Mailbox]:
        with Mailbox() as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield server
            server.shutdown()

    @staticmethod
    def save_block(name: str, mailbox: Mailbox, recipient: str) -> str:
        from pydantic import SecretStr

        from flows.mail_block import MailBlock

        url = f"mailto://{mailbox.address}?mode=insecure&from=labelscape@example.org&to={recipient}"
        MailBlock(url=SecretStr(url)).save(name, overwrite=True)
        return f"labelscape-email/{name}"

    def test_a_block_sends_a_mail(self, mailbox: Mailbox, tmp_path: Path) -> None:
        block = self.save_block("mail", mailbox, "me@example.org")
        send(configured(tmp_path, block=block), NOTICE, pytest.fail)
        (mail,) = mailbox.received
        assert mail["To"] == "me@example.org"
        assert mail["Subject"] == "labelscape: photos: scores dropped"
        body = next(part for part in mail.walk() if part.get_content_type() == "text/plain")
        assert body.get_payload(decode=True) == NOTICE.text.encode()

    def test_a_mail_that_is_refused_is_a_warning(self, mailbox: Mailbox, tmp_path: Path) -> None:
        block, warnings = self.save_block("lost", mailbox, "me@nowhere"), list[str]()
        send(configured(tmp_path, block=block), NOTICE, warnings.append)
        assert mailbox.received == []
        assert "notify.block: ServiceError: " in warnings[0]
        assert "me@nowhere" in warnings[0], "the reason that the block reports"


@pytest.mark.slow
def test_what_fails_is_a_warning_without_secrets(inbox: Inbox, tmp_path: Path) -> None:
    warnings: list[str] = []
    hook = f"http://{inbox.address}/broken/verysecretword"
    send(configured(tmp_path, webhook=hook, command="/no/such/program"), NOTICE, warnings.append)
    assert len(warnings) == 2
    assert "notify.command" in warnings[0]
    assert "notify.webhook" in warnings[1]
    assert "HTTP Error 500" in warnings[1]
    assert "verysecretword" not in "".join(warnings)


@pytest.mark.slow
def test_only_what_is_chosen_is_sent(inbox: Inbox, tmp_path: Path) -> None:
    config = configured(tmp_path, webhook=f"http://{inbox.address}/x", about="failure,champion")
    send(config, NOTICE, pytest.fail)
    assert inbox.received == []
    send(config, Notice("champion", "photos", "new"), pytest.fail)
    assert len(inbox.received) == 1


def test_nobody_gets_a_notice_by_default(tmp_path: Path) -> None:
    notify = local_config("iris", tmp_path).notify
    assert (notify.command, notify.webhook, notify.block) == (None, None, None)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("notify.webhook=ftp://host/x", "not an http"),
        ("notify.block=mine", "TYPE/NAME"),
        ("notify.command=' '", "names no program"),
        ("notify.about=everything", "failure"),
    ],
)
def test_a_hook_that_cannot_work_is_refused(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(None, [setting])


def test_before_any_flow_run_the_event_goes_to_the_running_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Path] = []
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr("flows.prefect_settings.prepare_engine", prepared.append)
    config = local_config("iris", tmp_path)
    send(config, NOTICE, pytest.fail)
    assert prepared == []
    monkeypatch.setattr("flows.notifications.running", lambda home: home)
    send(config, NOTICE, pytest.fail)
    assert prepared == [tmp_path]
