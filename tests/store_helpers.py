"""What the tests of the store share: a small artifact and its recipe."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storage.artifacts.keys import Recipe
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.store import Artifact, ArtifactStore


def recipe(seed: int = 0, **changes: Any) -> Recipe:
    base: dict[str, Any] = {
        "stage": "features",
        "variant": "moments",
        "code": {"embedding_core.labels": "a" * 32},
        "params": {"seed": seed},
        "inputs": {"manifest": "b" * 64},
        "schema": 1,
    }
    return Recipe(**base | changes)


def table(seed: int = 0, rows: int = 50, width: int = 8) -> pa.Table:
    values = np.random.default_rng(seed).normal(size=rows * width).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), width)
    return pa.table({"id": [f"item {row}" for row in range(rows)], "values": vectors})


def artifact(seed: int = 0, rows: int = 50) -> Artifact:
    return Artifact("sample", table(seed, rows), {"note": "naïve", "n": str(rows)})


def files(store: ArtifactStore, pattern: str = "*") -> list[str]:
    """Every file of the store, by relative path."""
    return sorted(
        path.relative_to(store.root).as_posix() for path in store.root.rglob(pattern) if path.is_file()
    )


def data_path(store: ArtifactStore, made: Recipe) -> Path:
    """The one data file of a stored recipe."""
    (path,) = (store.root / made.stage / made.key[:2]).glob(f"{made.key}-*.parquet")
    return path


def manifest_path(store: ArtifactStore, made: Recipe) -> Path:
    return store.root / made.stage / made.key[:2] / f"{made.key}.json"


def run_of(store: ArtifactStore, log: RunLog, seed: int, experiment: str = "photos") -> LoggedRun:
    """A run whose features link to a part of their own; both stages share one ingest."""
    ingest = store.compute(recipe(0, stage="ingest"), lambda: artifact(0)).ref
    part = store.compute(recipe(seed, stage="features_part"), lambda: artifact(seed)).ref
    linked = replace(artifact(seed + 100), links=(part,))
    features = store.compute(recipe(seed), lambda: linked).ref
    stages = {"ingest": ingest, "features": features}
    return log.add(LoggedRun("photos", experiment, "/photos", {"seed": seed}, stages))


def names(store: ArtifactStore) -> set[str]:
    """Every artifact by stage and key."""
    return {f"{one['stage']}/{one['key']}" for one in store.entries()}


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
