"""The labels of a refresh: merge answers that arrived, and write a new queue of items to label."""

import hashlib
from pathlib import Path
from urllib.parse import quote as quote_name

from flows.annotate_source import Execute
from flows.config import RunConfig, find_home
from flows.label_care import configured_request, merge_command, merge_file, own_label_file
from flows.label_queue import QueueBuilder
from flows.runner import open_workspace
from storage.artifacts.disk import make_folder, read_if_there
from storage.paths import expand_path
from storage.quoting import count_of
from tasks.label_care.corrections import Merged
from tasks.reporter import Reporter
from tasks.runs import source_id

QUEUES = "queues"
"""Folder of the home with the queues of refreshes."""


def digest_answers(config: RunConfig) -> str | None:
    """Digest of the file of answers; None if none is configured or it does not exist yet."""
    place = config.schedule.answers
    raw = read_if_there(expand_path(place, "schedule.answers")) if place else None
    return hashlib.sha256(raw).hexdigest() if raw else None


def merge_answers(config: RunConfig) -> str:
    """Merge the configured file of answers into the labels of the source; return what changed."""
    place, source = expand_path(config.schedule.answers or "", "schedule.answers"), config.source
    target = own_label_file(expand_path(source.path, "source"))
    merged = merge_file(place, source, open_workspace(config, Reporter()), target)
    return f"{_describe(merged)} from {place}"


def _describe(merged: Merged) -> str:
    said = ", ".join(
        [
            count_of(merged.changed, "item corrected", "items corrected"),
            count_of(merged.answered, "item labeled", "items labeled"),
            count_of(merged.confirmed, "item confirmed", "items confirmed"),
        ]
    )
    new = f"; the labels are in {merged.place} now: set source.labels to it" if merged.is_new else ""
    return f"{said}{new}"


def write_refreshed_queue(config: RunConfig, execute: Execute, experiment: str | None) -> list[Path]:
    """Write a random queue of `schedule.queue` unlabeled items; return its files, the page first."""
    request = configured_request(config, experiment)
    name = quote_name(Path(config.source.path).name or "items", safe=" ")
    out = find_home(config) / QUEUES / f"{name}-{source_id(config.source)[:6]}"
    make_folder(out.parent)
    make_folder(out)
    answers = config.schedule.answers
    merge = (
        f"Save the file as {expand_path(answers, 'schedule.answers')}; the next refresh merges it."
        if answers
        else f"Merge the saved file with: {merge_command(request, config.source.path)}"
    )
    return QueueBuilder(request, execute, Reporter()).write("random", config.schedule.queue, out, merge).files
