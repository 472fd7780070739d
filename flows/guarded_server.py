"""Run Prefect's or MLflow's server behind the guard: `python -m flows.guarded_server prefect|mlflow PORT`.

The home folder, and with it the token, is named by LABELSCAPE_HOME. `flows.services` starts this module.
"""

import os
import sys
from pathlib import Path
from typing import Any

from flows.guard import Guard
from flows.services import TRACKING_VARIABLE, WORKERS_VARIABLE
from storage.errors import ServiceError
from storage.servers import HOST, read_token
from storage.tracking.addresses import default_artifact_root, default_uri

_PORT = "LABELSCAPE_PORT"
HEALTH = {"prefect": "/api/health", "mlflow": "/health"}
# MLflow's pages start with those for language models and an open chat; ours are training runs.
PREFERENCES = {
    "mlflow": {
        "mlflow.workflowType_v1": '"machine_learning"',
        "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true",
    }
}


def load_prefect() -> Any:
    """Return the application that `prefect server start` runs."""
    from prefect.server.api.server import create_app

    return create_app(final=True)


def load_mlflow_server(home: Path) -> Any:
    """Return the application that `mlflow server` runs, on the database of a home."""
    from mlflow.server import constants

    # Artifacts are not proxied, so runs logged with and without the server use the same folder.
    uri = os.environ.get(TRACKING_VARIABLE) or default_uri(home)
    artifacts = default_artifact_root(home).as_uri()
    os.environ[constants.BACKEND_STORE_URI_ENV_VAR] = uri
    os.environ[constants.REGISTRY_STORE_URI_ENV_VAR] = uri
    os.environ[constants.ARTIFACT_ROOT_ENV_VAR] = artifacts
    from mlflow.server.fastapi_app import app
    from mlflow.server.handlers import initialize_backend_stores

    initialize_backend_stores(uri, uri, artifacts)
    return app


def guarded_mlflow() -> Any:
    """Return MLflow's server behind the guard, for one of several processes; see `main`."""
    home = Path(os.environ["LABELSCAPE_HOME"])
    return _guard(load_mlflow_server(home), "mlflow", read_token(home) or "", int(os.environ[_PORT]))


def _guard(app: Any, name: str, token: str, port: int) -> Guard:
    return Guard(app, token, port, HEALTH[name], PREFERENCES.get(name))


def serve(app: Any, name: str, token: str, port: int, **more: Any) -> None:
    """Serve an application behind the guard until stopped by a signal; `more` are arguments of uvicorn."""
    import uvicorn

    os.umask(0o077)  # databases and logs are for the owner only
    uvicorn.run(
        app if isinstance(app, str) else _guard(app, name, token, port),
        host=HOST,
        port=port,
        access_log=False,  # it would contain the token of the link
        proxy_headers=False,
        timeout_graceful_shutdown=5,
        **more,
    )


def main(name: str, port: int, home: Path) -> None:
    """Serve the server of a home."""
    token = read_token(home)
    if token is None:
        raise ServiceError(f"{home} has no token for its servers; start them with `labelscape up`.")
    os.umask(0o077)  # also for what is created while the application is loaded
    workers = int(os.environ.get(WORKERS_VARIABLE, "1"))
    if name == "mlflow" and workers > 1:
        os.environ[_PORT] = str(port)
        factory = f"{Path(__file__).parent.name}.guarded_server:{guarded_mlflow.__name__}"
        serve(factory, name, token, port, log_level="warning", factory=True, workers=workers)
        return
    app = load_prefect() if name == "prefect" else load_mlflow_server(home)
    serve(app, name, token, port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(os.environ["LABELSCAPE_HOME"]))
