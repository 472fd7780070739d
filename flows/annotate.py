"""Annotate new items with the model of a tracked run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.errors import SourceError
from storage.models import load_model
from storage.tracking import ModelInfo, Tracker
from storage.tracking_engine import redact
from tasks.annotation import Annotations, annotate_images, annotate_table, write_annotations
from tasks.reporter import Reporter
from tasks.stage import count_threads


@dataclass(frozen=True)
class Annotated:
    """What was annotated, by which model, and where it lies."""

    annotations: Annotations
    model: ModelInfo
    files: list[Path]


def annotate_items(
    place: Path,
    tracker: Tracker,
    run: str | None,
    method: str | None,
    out: Path,
    reporter: Reporter,
    workers: int,
) -> Annotated:
    """Label every item of a folder or table and write Parquet and CSV."""
    from embedding_core.annotator import SKOPS_TRUSTED_TYPES

    payload, info = tracker.model(run or _newest(tracker), method)
    model: Any = load_model(payload, SKOPS_TRUSTED_TYPES)
    if not place.exists():
        raise SourceError(f"{place}: no such folder or file; give new images, or a table of features.")
    if place.is_dir():
        annotations = annotate_images(place, model, reporter, count_threads(workers))
    else:
        annotations = annotate_table(place, model)
    files = write_annotations(annotations, out, {"run": info.parent_id, "method": info.method})
    return Annotated(annotations, info, files)


def _newest(tracker: Tracker) -> str:
    newest = tracker.latest()
    if newest is None:
        raise SourceError(
            f"no run has been tracked at {redact(tracker.uri)} yet; train a model with `labelscape run`."
        )
    return newest.parent_id
