"""A flow with the shape of `flows.prefect_engine.train` that only leaves a trace of its run."""

from pathlib import Path

from prefect import flow
from pydantic import BaseModel, ConfigDict


class StandInSource(BaseModel):
    """Stand-in for the table `source` of a configuration."""

    model_config = ConfigDict(extra="forbid")
    path: str = "demo"


class StandInConfig(BaseModel):
    """Stand-in for the typed configuration: unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid")
    home: str | None = None
    executor: str = "auto"
    source: StandInSource = StandInSource()


@flow(name="stand-in")
def train(config: StandInConfig) -> None:
    """Write down what was asked for."""
    (Path(config.home or ".") / "ran.txt").write_text(f"{config.source.path} {config.executor}")
