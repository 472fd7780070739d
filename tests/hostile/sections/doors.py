"""The servers of `labelscape up`: what a web page, another user or a rebound name may not do."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.hostile.case import REFUSED, REPOSITORY, SURVIVED, Act, Case, Place

SEARCH = json.dumps({"max_results": 10})
FOREIGN = "http://evil.example"


def labelscape(shared: Path, *arguments: str) -> None:
    """Run a command with the home of the servers."""
    subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments, "--home", str(shared / "home")],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=shared,
        check=True,
        timeout=240,
        stdout=subprocess.DEVNULL,
    )


def prepare(shared: Path) -> None:
    """Start the servers."""
    labelscape(shared, "up", "--prefect-port", "0", "--mlflow-port", "0")


def clean_up(shared: Path) -> None:
    """Stop the servers."""
    if (shared / "home").is_dir():
        labelscape(shared, "down")


def services(place: Place) -> dict[str, dict[str, int]]:
    """The record of the servers."""
    found: dict[str, dict[str, int]] = json.loads((place.shared / "home" / "services.json").read_bytes())
    return found


def ask(server: str, method: str, path: str, body: str | None = None, **headers: str) -> Act:
    """Send a request without a login; exit code 2 if the server refuses it, 0 if it answers it."""

    def act(place: Place) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", services(place)[server]["port"], timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        text = answer.read(500)
        allowed = answer.getheader("Access-Control-Allow-Origin", "")
        os.write(
            1, f"{answer.status} {answer.reason}, origins {allowed!r}, {len(text)} bytes of text\n".encode()
        )
        if method == "OPTIONS":
            return 0 if allowed in ("*", FOREIGN) else 2
        return 2 if answer.status in (400, 401, 403, 404, 405, 421) else 0

    return act


def local_only(place: Place) -> int:
    """No server listens on an address that other machines reach."""
    for server in ("prefect", "mlflow"):
        leader = psutil.Process(services(place)[server]["pid"])
        for process in (leader, *leader.children(recursive=True)):
            for one in process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN and one.laddr.ip not in ("127.0.0.1", "::1"):
                    os.write(1, f"{server} listens on {one.laddr.ip}\n".encode())
                    return 1
    os.write(1, b"every server listens on 127.0.0.1 only\n")
    return 0


def cases() -> list[Case]:
    """The cases of this section; tests/flows has the thorough ones."""
    simple = {"Content_Type": "text/plain", "Origin": FOREIGN}
    sent = {"Content_Type": "application/json"}
    asked = {"Access_Control_Request_Method": "POST", "Origin": FOREIGN}
    attacks = {
        "prefect: read flow runs without login": ask("prefect", "POST", "/api/flow_runs/filter", "{}"),
        "prefect: simple request of a web page": ask(
            "prefect", "POST", "/api/flow_runs/filter", "{}", **simple
        ),
        "prefect: delete without login": ask(
            "prefect", "DELETE", f"/api/flows/{'0' * 8}-0000-4000-8000-{'0' * 12}"
        ),
        "prefect: preflight of a web page": ask("prefect", "OPTIONS", "/api/flow_runs/filter", **asked),
        "prefect: rebound name": ask("prefect", "POST", "/api/flow_runs/filter", "{}", Host="evil.example"),
        "prefect: wrong login": ask("prefect", "POST", "/api/flows/filter", "{}", Authorization="Basic YTpi"),
        "mlflow: search without login": ask(
            "mlflow", "POST", "/api/2.0/mlflow/experiments/search", SEARCH, **sent
        ),
        "mlflow: simple request of a web page": ask(
            "mlflow", "POST", "/api/2.0/mlflow/experiments/search", SEARCH, **simple
        ),
        "mlflow: preflight of a web page": ask(
            "mlflow", "OPTIONS", "/api/2.0/mlflow/experiments/search", **asked
        ),
        "mlflow: rebound name": ask(
            "mlflow", "POST", "/api/2.0/mlflow/experiments/search", SEARCH, Host="evil.example"
        ),
        "mlflow: file outside": ask("mlflow", "GET", "/get-artifact?path=../../../../etc/passwd&run_uuid=0"),
        "mlflow: wrong login": ask(
            "mlflow", "POST", "/api/2.0/mlflow/experiments/search", SEARCH, **sent, Authorization="Bearer x"
        ),
    }
    doors = [Case(title, act=act, expect=REFUSED) for title, act in attacks.items()]
    return [*doors, Case("listen on this machine only", act=local_only, expect=SURVIVED)]
