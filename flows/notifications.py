"""Tell people about failed runs, drops of a score and new champions.

Each notice is an event of Prefect and, if the settings `notify.*` name them, input of a program, a request to
a webhook and a message of a notification block of Prefect. A notice that cannot be sent never fails a run.
"""

import base64
import importlib
import json
import os
import shlex
import subprocess
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from flows.config import RunConfig, find_home
from flows.services import running
from storage.credentials import hide_secrets, reveal_hook
from storage.errors import ServiceError
from storage.urls import split_address

About = Literal["failure", "drop", "champion"]
EVENT_PREFIX = "labelscape."
_SECONDS = 20.0


@dataclass(frozen=True)
class Notice:
    """One message.

    Attributes
    ----------
    about : {"failure", "drop", "champion"}
    collection : str
        Name of the collection.
    text : str
        One sentence for people.
    facts : mapping
        More for programs, as plain data.
    """

    about: About
    collection: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Subject of a message."""
        what = {"failure": "run failed", "drop": "scores dropped", "champion": "new champion"}[self.about]
        return f"labelscape: {self.collection}: {what}"

    def as_json(self) -> str:
        """As text for programs, without secrets."""
        known = {"event": EVENT_PREFIX + self.about, "title": self.title, **asdict(self)}
        return hide_secrets(json.dumps(known, ensure_ascii=False))


def collection_name(config: RunConfig) -> str:
    """Name of the collection in notices: the configured name, else that of the source."""
    return config.name or Path(config.source.path).name


def send(config: RunConfig, notice: Notice, warn: Callable[[str], None]) -> None:
    """Send a notice in every configured way; `warn` receives what failed."""
    chosen = config.notify
    if notice.about not in chosen.about:
        return
    ways: list[tuple[str, Callable[[], None]]] = [("event", lambda: _emit(notice, find_home(config)))]
    if command := chosen.command:
        ways.append(("command", lambda: _run(command, notice)))
    if webhook := chosen.webhook:
        ways.append(("webhook", lambda: _post(reveal_hook(webhook, find_home(config)), notice)))
    if block := chosen.block:
        ways.append(("block", lambda: _use_block(block, notice)))
    for name, way in ways:
        try:
            way()
        except Exception as error:  # whatever a program, a server or a block of the user raises
            why = hide_secrets(f"{type(error).__name__}: {error}")
            warn(f"the notice about this {notice.about} could not be sent (notify.{name}: {why}).")


def _emit(notice: Notice, home: Path) -> None:
    """Emit an event of Prefect, if a server is configured; emitting without one would start a server."""
    if "PREFECT_API_URL" not in os.environ and running(home) is not None:
        from flows.prefect_settings import prepare_engine

        prepare_engine(home)  # the failure came before any flow run
    if "PREFECT_API_URL" not in os.environ:
        return
    from prefect.events import emit_event

    content = json.loads(notice.as_json())
    emit_event(
        event=EVENT_PREFIX + notice.about,
        resource={
            "prefect.resource.id": collection_resource(notice.collection),
            "prefect.resource.name": notice.collection,
        },
        payload=content,
    )


def collection_resource(name: str) -> str:
    """Id of a collection in Prefect's events."""
    return f"{EVENT_PREFIX}collection.{name}"


def _run(command: str, notice: Notice) -> None:
    subprocess.run(
        shlex.split(command),
        input=notice.as_json().encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_SECONDS,
        check=True,
        cwd=Path.home(),
    )


def _post(address: str, notice: Notice) -> None:
    parts = split_address(address)
    headers = {"Content-Type": "application/json", "User-Agent": "labelscape"}
    if parts.login:
        login = base64.b64encode(unquote(parts.login).encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    url = parts.scheme + parts.place + parts.tail
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("the address is not an http address")
    # `text` is what chat programs show; the rest is for programs.
    content = {**json.loads(notice.as_json()), "text": hide_secrets(f"{notice.title}\n{notice.text}")}
    request = urllib.request.Request(  # noqa: S310 (checked above)
        url, json.dumps(content).encode(), headers, method="POST"
    )
    urllib.request.urlopen(request, timeout=_SECONDS).close()  # noqa: S310


def _use_block(name: str, notice: Notice) -> None:
    from prefect.blocks.abstract import NotificationError
    from prefect.blocks.core import Block

    importlib.import_module("flows.mail_block")  # Prefect loads blocks of types that are imported
    found: Any = Block.load(name)
    try:
        with found.raise_on_failure():  # otherwise Prefect ignores a failure
            found.notify(body=hide_secrets(notice.text), subject=hide_secrets(notice.title))
    except NotificationError as error:  # it has no text of its own
        raise ServiceError(" ".join(error.log.split()) or "not delivered") from None
