"""Build a queue of items to label and write its files; for `labelscape next` and for refreshes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedding_core.errors import InvalidInput
from flows.annotate import AnnotationPlan
from flows.annotate_source import Execute
from flows.config import find_home
from flows.label_care import CareRequest, make_review_plan, own_label_file
from flows.runner import RunResult, open_workspace
from storage.artifacts.annotations import Annotations
from storage.errors import ConfigError
from storage.paths import expand_path
from storage.quoting import count_of
from storage.sources import OpenedSource
from storage.sources.base import Collection
from tasks.annotation import Request, load_annotations
from tasks.annotation.evidence import Evidence
from tasks.annotation.files import check_separator
from tasks.annotation.judge import stored_alike
from tasks.annotation.recipes import match_blocks
from tasks.dataset import load_blocks
from tasks.label_care.corrections import labels_by_id, load_checked
from tasks.label_care.findings import load_findings
from tasks.label_care.gain import forecast_for, forecast_sentence, keep_forecast
from tasks.label_care.page import PageText
from tasks.label_care.queue import Order, Queue, error_queue, make_queue, pool_size, unlike_queue
from tasks.label_care.queue_files import write_queue
from tasks.label_care.review import without_checked
from tasks.label_care.suggestions import SUSPECT, make_cards
from tasks.reporter import Reporter
from tasks.stages.ingest import open_collection


@dataclass(frozen=True)
class WrittenQueue:
    """A queue, its files with the page first, and what more labels are forecast to gain, if it adds some."""

    queue: Queue
    files: list[Path]
    forecast: dict[str, Any] | None
    sentence: str


class QueueBuilder:
    """Builds queues of the collection of a request.

    Parameters
    ----------
    request : CareRequest
    execute : callable
        Runs a plan.
    reporter : Reporter
    """

    def __init__(self, request: CareRequest, execute: Execute, reporter: Reporter) -> None:
        self._request = request
        self._execute = execute
        self._reporter = reporter
        self._source = request.config.source

    def write(self, kind: str, count: int, out: Path, merge: str) -> WrittenQueue:
        """Choose items and write the files of the queue; `merge` says how the answers are merged."""
        request = self._request
        workspace = open_workspace(request.config, self._reporter)
        opened = open_collection(self._source, workspace, allow_missing=True)
        collection = opened.read(workspace.cache_dir)
        check_separator(set(collection.label_names), self._source.label_separator, "next")
        if kind == "errors":
            queue = self._errors(count, opened, collection)
            forecast, sentence = None, ""  # it adds no labels
        else:
            queue = self._unlabeled(kind, count, collection)
            forecast, sentence = self._forecast()
        text = PageText(
            f"Label next: {opened.name}",
            f"{count_of(len(queue.cards), 'item')} ({queue.kind}): {queue.purpose}.",
            merge,
            notes=[f"Forecast: {sentence}."] if sentence else [],
        )
        names = sorted({*collection.label_names, *request.model.fitted.annotator.classes_})
        separator, model = self._source.label_separator, request.model.info.run_id
        files = write_queue(queue, collection, names, out, text, separator, model)
        return WrittenQueue(queue, files, forecast, sentence)

    def _unlabeled(self, kind: str, count: int, collection: Collection) -> Queue:
        """A queue of unlabeled items, from the predictions of the model."""
        request = self._request
        if not (collection.labels < 0).any(axis=1).any():
            raise ConfigError(
                f"all {len(collection.ids)} items of {self._source.path} have labels, so none is left. Look "
                "for wrong ones with --by errors."
            )
        # Comparing each item with all labeled ones costs more than the predictions.
        asked = Request(unlabeled=True, evidence=False)
        plan = AnnotationPlan(request.config, request.model, request.uri, request=asked, given=request.given)
        result = self._execute(plan)
        found = load_annotations(result.store, result.products.annotations)
        counts = (collection.labels == 1).sum(axis=0).tolist()
        carriers = dict(zip(collection.label_names, counts, strict=True))
        place = self._coordinates(result, found.ids)
        if kind == "unlike":
            queue = self._unlike(found, count, place)
        else:
            queue = make_queue(kind, found, carriers, count, place)
        if not queue.cards:
            raise ConfigError(
                f"--by {kind}: no such item was found. Choose another kind, such as --by random."
            )
        return queue

    def _unlike(self, found: Annotations, count: int, place: Callable[[Order], Any]) -> Queue:
        """A queue of unlabeled items unlike all labeled ones."""
        model = self._request.model.fitted
        if model.labeled is None:
            raise ConfigError(
                "--by unlike: this model has no record of its labeled items; train one with `labelscape "
                "auto`."
            )
        prepared = place(np.arange(len(found.ids)))
        evidence = Evidence(model.annotator, model.labeled)
        return unlike_queue(found, *evidence.find_unlike(prepared, pool_size(count)), count, place)

    def _errors(self, count: int, opened: OpenedSource, collection: Collection) -> Queue:
        """A queue of labeled items that are probably labeled wrong."""
        request = self._request
        if request.model.fitted.lacking:
            raise ConfigError(f"--by errors needs out-of-fold scores. {request.model.fitted.lacking}.")
        checked = load_checked(
            opened, collection.ids, own_label_file(expand_path(self._source.path, "source"))
        )
        result = self._execute(make_review_plan(request))
        found = without_checked(load_findings(result.store, result.products.annotations), checked)
        given = labels_by_id(collection)
        cards = make_cards(found, given, pool_size(count), collection.single_label, checked)
        ids = [card.id for card in cards if card.kind == SUSPECT]
        return error_queue(cards, count, self._coordinates(result, ids))

    def _coordinates(self, result: RunResult[Any], ids: Sequence[str]) -> Callable[[Order], Any]:
        """Prepared features of some of the items with these ids."""
        model = self._request.model.fitted

        def place(rows: Order) -> Any:
            found, _ = load_blocks(result.store, result.products.features)
            where = {name: row for row, name in enumerate(found[0].ids)}
            chosen = np.array([where[ids[row]] for row in rows.tolist()])
            X = match_blocks(found, model, self._source.path)[chosen]
            return model.annotator.prepare_features(stored_alike(X, model))

        return place

    def _forecast(self) -> tuple[dict[str, Any] | None, str]:
        """The forecast, and its sentence; empty if too few items are labeled."""
        model = self._request.model.fitted
        if model.labeled is None:
            return None, ""
        try:
            made = forecast_for(model.annotator, model.labeled)
        except InvalidInput as error:
            return None, f"none: {str(error).rstrip('.')}"
        keep_forecast(find_home(self._request.here), self._source, made)
        return vars(made), forecast_sentence(made, model.labeled.label_names)
