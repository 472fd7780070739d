"""MLflow's own tables: their names and versions, and how to create and upgrade them."""

import importlib
from functools import cache
from pathlib import Path
from typing import Any

from storage.tracking.addresses import default_artifact_root

_STORES = ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store")


def _utilities() -> Any:
    return importlib.import_module("mlflow.store.db.utils")


def _stores() -> list[Any]:
    return [importlib.import_module(name).SqlAlchemyStore for name in _STORES]


@cache
def known_revisions() -> tuple[str, ...]:
    """Return the versions of MLflow's tables, the latest first."""
    script = _utilities().ScriptDirectory.from_config(_utilities()._get_alembic_config(""))
    return tuple(one.revision for one in script.walk_revisions())


@cache
def known_tables() -> frozenset[str]:
    """Return the names of MLflow's tables."""
    return frozenset(_utilities().Base.metadata.tables)


def mlflow_version() -> str:
    """Return the version of MLflow."""
    return str(importlib.import_module("mlflow.version").VERSION)


def migrate(file: Path, upgrade: bool) -> None:
    """Create the tables and the default experiment of MLflow in a file; with `upgrade`, add what is new."""
    uri, store = f"sqlite:///{file}", _stores()[0]
    engine = store._engine_map[uri] = _utilities().create_sqlalchemy_engine(uri)
    try:
        (_utilities()._upgrade_db if upgrade else _utilities()._initialize_tables)(engine)
        store(uri, default_artifact_root(file.parent).as_uri())
    finally:
        engine.dispose()
        del store._engine_map[uri]


def close_connections(file: Path) -> None:
    """Close the connections of this process to a database that is about to be replaced."""
    for engine in [engine for store in _stores() for engine in store._engine_map.values()]:
        place = engine.url.database
        if engine.url.get_backend_name() == "sqlite" and place and Path(place).resolve() == file:
            engine.dispose()
