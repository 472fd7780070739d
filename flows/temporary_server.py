"""The Prefect server of one run: guarded like that of `labelscape up`, and it ends with its run.

Prefect's own temporary server outlives a run that is killed. Instead of it, Prefect starts
`python -m flows.temporary_server PORT PARENT`; the login is in the environment.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Any

from flows.guarded_server import load_prefect, serve

_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
_PREFECT_VARIABLES = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}
_LOOK_SECONDS = 0.5


def install() -> None:
    """Make Prefect start this server; it has no setting for that."""
    from prefect.server.api.server import SubprocessASGIServer

    SubprocessASGIServer._run_uvicorn_command = _start  # type: ignore[method-assign, assignment]


def _start(server: Any) -> "subprocess.Popen[Any]":
    from prefect.settings import get_current_settings

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    return subprocess.Popen(
        [sys.executable, "-m", "flows.temporary_server", str(server.port), str(os.getpid())],
        env={**os.environ, **_PREFECT_VARIABLES, **settings},
    )


def _end_with(parent: int) -> None:
    """End this process when its parent has died."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(0)


def main(port: int, parent: int) -> None:
    """Serve until stopped by a signal, or until the parent dies."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.umask(0o077)
    # Prefect's own settings of loggers stay: messages during the end would follow the last line of the run.
    serve(load_prefect(), "prefect", os.environ[_LOGIN], port, log_config=None)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
