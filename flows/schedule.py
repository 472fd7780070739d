"""Flows on a schedule: served from this process, or registered for a worker."""

import asyncio
import contextlib
import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flows.config import RunConfig, resolve_home
from flows.deployed_places import PLACES_VARIABLE, digest_places
from flows.deployment_options import (
    detect_crashes,
    how_to_start,
    make_runner,
    make_triggers,
    one_at_a_time,
)
from flows.prefect_settings import check_answers
from flows.services import NO_SERVER, running
from flows.stores import find_store_uri
from flows.terminal import tell
from storage.credentials import enter, enter_hook, hide_secrets, keep
from storage.errors import ConfigError, ServiceError
from storage.paths import expand_path
from storage.servers import find_login
from storage.tracking.models import flatten_params
from storage.urls import redact

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.schedules import Schedule

ENTRYPOINT = "flows.prefect_engine.train"
# What can be served and deployed.
ENTRYPOINTS = {
    "run": ENTRYPOINT,
    **{name: f"flows.deployed_flows.{name}" for name in ("auto", "annotate", "refresh", "prune")},
}
TAGS = ["labelscape"]
POOL_TYPE = "process"
# Characters that Prefect does not accept in names.
_BANNED = "/%&><"


def serve(
    config: RunConfig | Mapping[str, Any],
    cron: str | None,
    name: str | None = None,
    timezone: str | None = None,
    entrypoint: str = ENTRYPOINT,
    replace: bool = False,
    on_change: bool = False,
) -> None:
    """Serve a deployment of the flow until interrupted, then pause its schedule.

    Parameters
    ----------
    config : RunConfig or mapping
        The parameter of the flow; checked here and by the server.
    cron : str or None
        When to run, in five fields; None: only on request.
    name : str, optional
        Name of the deployment; default: the configured name, else that of the source.
    timezone : str, optional
        Time zone of the cron fields, such as `Europe/Zurich`; default: UTC.
    entrypoint : str
        Module path of the flow.
    replace : bool
        Whether a deployment of this name with another configuration may be replaced.
    on_change : bool
        Whether the event `labelscape.changed` of the collection starts a run too.
    """
    parameters, schedule, home = _parameters(config), _schedule(cron, timezone), _home(config)
    name = name or name_deployment(parameters["config"])
    check_name(name, "--name")
    with connected(home) as api:
        from prefect.types.entrypoint import EntrypointType

        flow = _load_flow(entrypoint, parameters)
        if not replace:
            _refuse_another(f"{flow.name}/{name}", parameters["config"])
        os.environ[PLACES_VARIABLE] = digest_places(parameters["config"])
        runner = make_runner(name, parameters["config"])
        detect_crashes()
        with _paused_afterwards(f"{flow.name}/{name}"):
            runner.add_flow(
                flow,
                name=name,
                schedule=schedule,
                triggers=make_triggers(flow.name, name, on_change),
                parameters=parameters,
                tags=TAGS,
                concurrency_limit=one_at_a_time(parameters["config"]),
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
            starts = how_to_start(flow.name, name, on_change, home, api)
            tell(f"serving {flow.name}/{name}, {_when(cron, timezone)}; stop with Ctrl-C\n{starts}")
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(runner.start())


def deploy(
    config: RunConfig | Mapping[str, Any],
    cron: str | None,
    pool: str,
    name: str | None = None,
    timezone: str | None = None,
    entrypoint: str = ENTRYPOINT,
    replace: bool = False,
    on_change: bool = False,
) -> str:
    """Register the flow on a process work pool and return instructions; create the pool if missing.

    The worker imports the flow by its module path, so it only needs an installed labelscape. Parameters are
    those of `serve`.
    """
    parameters, schedule, home = _parameters(config), _schedule(cron, timezone), _home(config)
    name = name or name_deployment(parameters["config"])
    check_name(name, "--name")
    check_name(pool, "--pool")
    with connected(home) as api:
        from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
        from prefect.types.entrypoint import EntrypointType

        flow = _load_flow(entrypoint, parameters)
        if not replace:
            _refuse_another(f"{flow.name}/{name}", parameters["config"])
        deployment = RunnerDeployment.from_flow(
            flow,
            name=name,
            schedule=schedule,
            parameters=parameters,
            tags=TAGS,
            concurrency_limit=one_at_a_time(parameters["config"]),
            triggers=make_triggers(flow.name, name, on_change),
            work_pool_name=pool,
            job_variables={
                "env": {
                    "PYTHONSAFEPATH": "1",
                    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
                    PLACES_VARIABLE: digest_places(parameters["config"]),
                }
            },
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        _ensure_pool(pool)
        detect_crashes()
        try:
            deployment.apply(work_pool_name=pool)
        except DeploymentApplyError as error:
            raise ServiceError(f"{redact(api)} refuses deployment {deployment.full_name}: {error}") from None
    worker = f"PREFECT_API_URL={redact(api)} prefect worker start --pool {pool} --type {POOL_TYPE}"
    if find_login(home, api):
        worker = shlex.join(["labelscape", "worker", "--pool", pool, "--home", str(home)])
    starts = how_to_start(flow.name, name, on_change, home, api)
    return (
        f"registered {deployment.full_name} on pool {pool} at {redact(api)}, {_when(cron, timezone)}\n"
        f"{starts}\n"
        f"run it with a worker:  {worker}"
    )


def start_worker(home: Path, pool: str, run_once: bool = False) -> NoReturn:
    """Replace this process by a worker of Prefect that executes the runs of a work pool."""
    command = [sys.executable, "-m", "flows.steady_runner", "worker", "start", "--pool", pool]
    command += ["--type", POOL_TYPE]
    with connected(home) as api:
        os.environ["PREFECT_API_URL"] = api
        if token := find_login(home, api):
            os.environ["PREFECT_API_AUTH_STRING"] = token
    os.execv(sys.executable, [*command, *(["--run-once"] if run_once else [])])  # noqa: S606 (ours)


def _home(config: RunConfig | Mapping[str, Any]) -> Path:
    return resolve_home(config.home if isinstance(config, RunConfig) else config.get("home"))


def _parameters(config: RunConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the flow with absolute paths.

    A scheduled run starts in another folder, and a worker does not have the environment of this process.
    """
    values = config.model_dump(mode="json") if isinstance(config, RunConfig) else dict(config)
    values["home"] = str(_home(config))
    for name, key in (("tracking", "uri"), ("schedule", "database")):
        table = values.get(name)
        if isinstance(table, Mapping) and isinstance(uri := table.get(key), str):
            # Prefect shows the parameters; the scheduled run finds the password in the home folder.
            values[name] = {**table, key: enter(uri)}
            keep(enter(uri), _home(config))
    if isinstance(hooks := values.get("notify"), Mapping) and isinstance(hook := hooks.get("webhook"), str):
        values["notify"] = {**hooks, "webhook": enter_hook(hook)}
        keep(enter_hook(hook), _home(config))
    store = values.get("store") or {}
    if isinstance(store, Mapping) and (uri := find_store_uri(store.get("uri"))):
        values["store"] = {**store, "uri": uri}
    source = values.get("source")
    if isinstance(source, Mapping):
        values["source"] = {key: _absolute(key, value) for key, value in source.items()}
    return {"config": values}


def _absolute(key: str, value: Any) -> Any:
    """The absolute path of a place; `labels` may also be a column, or a file beside the data."""
    from storage.sources.registry import source_names

    if key not in ("path", "labels", "edges") or not isinstance(value, str) or value in source_names():
        return value
    place = expand_path(value, f"source.{key}")
    return value if key == "labels" and not place.exists() else str(place.resolve())


def name_deployment(config: Mapping[str, Any]) -> str:
    """Name of a deployment: the configured name, else that of the source, as far as Prefect accepts it."""
    source = config.get("source") or {}
    text = str(config.get("name") or Path(str(source.get("path") or "train")).name)
    return "".join("-" if one in _BANNED else one for one in text)


def default_name(config: RunConfig) -> str:
    """Name under which `serve` and `deploy` register a configuration if none is given."""
    return name_deployment(_parameters(config)["config"])


def _refuse_another(deployment: str, config: Mapping[str, Any]) -> None:
    """Refuse to replace a deployment of the same name that has another configuration."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            known = client.read_deployment_by_name(deployment).parameters.get("config") or {}
        except ObjectNotFound:
            return
    before, now = flatten_params(known), flatten_params(config)
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if changed:
        first = changed[0]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ConfigError(
            f"the deployment {deployment} exists with another configuration ({first}: "
            f"{before.get(first, 'default')} there, {now.get(first, 'default')} here{more}). Replace it with "
            "--replace, or choose another name with --name."
        )


def check_name(name: str, option: str) -> None:
    """Reject a name that Prefect does not accept for a deployment or a work pool."""
    wrong = sorted({one for one in name if one in _BANNED})
    if wrong or not name.strip("' \""):
        found = f"contains {' '.join(wrong)}" if wrong else "is empty"
        raise ConfigError(f"{option} {name!r} {found}; choose a name without {' '.join(_BANNED)}.")


def _schedule(cron: str | None, timezone: str | None) -> "Schedule | None":
    if cron is None:
        return None
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.schedules import Cron
    from pydantic import ValidationError

    try:
        CronSchedule(cron=cron, timezone=timezone or "UTC")
        problem = "" if _fires(cron) else "no date matches it, so it would never run"
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
    if problem:
        raise ConfigError(
            f"--cron {cron!r}: {problem}; give five fields: minute, hour, day, month, weekday, "
            'for instance "0 3 * * *" for 03:00 every day.'
        )
    return Cron(cron, timezone=timezone or "UTC")


def _when(cron: str | None, timezone: str | None) -> str:
    return f"at {cron} ({timezone or 'UTC'})" if cron else "on request"


def _fires(cron: str) -> bool:
    """Whether any date of the next decades matches; none matches February 31."""
    croniter: Any = importlib.import_module("prefect._vendor.croniter")
    try:
        croniter.croniter(cron, datetime.now(UTC)).get_next()
    except croniter.CroniterBadDateError:
        return False
    return True


def _load_flow(entrypoint: str, parameters: dict[str, Any]) -> "Flow[..., Any]":
    """The flow, after its signature has accepted the parameters."""
    from prefect.exceptions import ParameterTypeError
    from prefect.flows import load_flow_from_entrypoint

    flow: Flow[..., Any] = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
    try:
        flow.validate_parameters(parameters)
    except ParameterTypeError as error:
        raise ConfigError(
            f"the configuration does not match the flow {flow.name}:\n{hide_secrets(str(error))}"
        ) from None
    return flow


@contextlib.contextmanager
def connected(home: Path) -> Iterator[str]:
    """Connect to the configured Prefect server, else to the one that `labelscape up` started."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    services = running(home)
    api = PREFECT_API_URL.value() or (services.prefect_url if services else None)
    if api is None:
        raise ServiceError(f"schedules need a Prefect server and none is running. {NO_SERVER}")
    token = find_login(home, api)
    with temporary_settings({PREFECT_API_URL: api} | ({PREFECT_API_AUTH_STRING: token} if token else {})):
        check_answers(api)
        yield api


@contextlib.contextmanager
def _paused_afterwards(deployment: str) -> Iterator[None]:
    """Pause the deployment at the end; otherwise late runs that nothing executes would accumulate.

    Prefect's own pause does not complete when SIGTERM ends the process.
    """
    from httpx import HTTPError
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited")
    try:
        yield
    finally:
        # If the server is gone already, it schedules nothing.
        with contextlib.suppress(ObjectNotFound, HTTPError), get_client(sync_client=True) as client:
            client.pause_deployment(client.read_deployment_by_name(deployment).id)


def _ensure_pool(pool: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound
    from prefect.workers.process import ProcessWorker

    with get_client(sync_client=True) as client:
        try:
            found = client.read_work_pool(pool)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            client.create_work_pool(WorkPoolCreate(name=pool, type=POOL_TYPE, base_job_template=template))
            return
    if found.type != POOL_TYPE:
        raise ServiceError(
            f"work pool {pool!r} has type {found.type!r}, expected {POOL_TYPE!r}; choose another pool."
        )
