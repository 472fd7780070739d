"""Bring a collection up to date (`labelscape refresh`): look at the source, repeat what is stale, compare.

An unchanged collection is recognized by the artifacts of its first stages, without MLflow or Prefect. After a
change, `run` and `auto` compute what is stale, the items without labels are annotated by the champion, and
the scores are compared with those of the last refresh.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedding_core.registry import get_method
from flows import __version__
from flows.annotate_source import Execute, annotate_source
from flows.config import RunConfig
from flows.notifications import Notice, collection_name
from flows.pipeline import TrainingPlan, TrainingProducts, walk_data
from flows.refresh_result import RefreshResult, describe_champion
from flows.runner import RunResult, open_workspace
from flows.score_moves import (
    ScoreMove,
    Scores,
    choice_scores,
    compare_scores,
    find_drop,
    run_scores,
)
from flows.selection import SelectionPlan, SelectionResult, choose_features, known_settings
from flows.status import Inspector
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.run_log import RunLog
from storage.artifacts.schemas import unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, SourceError, StoreError, TrackingError
from storage.tracking.models import flatten_params
from tasks.changes import compare_readings
from tasks.reporter import Reporter
from tasks.runs import source_id
from tasks.stages.evaluation import load_scores
from tasks.stages.tracking import load_tracked, make_tracker

DROP_TAG = "labelscape.drop"
_SHOWN = 4
# Refreshes with other settings are remembered beside the last one, so that two schedules do not disturb it.
_REMEMBERED = 10


@dataclass(frozen=True)
class SourceView:
    """What a look at the source found: the artifacts of its stages, or why they are stale."""

    name: str
    refs: Mapping[str, str]
    manifest: ArtifactRef | None
    stale: tuple[str, ...]


def look(config: RunConfig) -> SourceView:
    """Read the source as ingest does, and look up the stages that every method needs."""
    workspace = open_workspace(config, Reporter())
    for_auto = "auto" in config.schedule.refresh
    if for_auto:
        config = choose_features(config, workspace)
    inspector = Inspector(config, workspace)
    state = walk_data(config, inspector.workspace, inspector, for_auto)
    stale = tuple(
        f"{one.label}: {', '.join(one.reasons) or 'not computed yet'}"
        for one in inspector.found
        if one.state != "fresh"
    )
    refs = {
        f"{stage}[{variant}]": ref.digest
        for stage, variants in state.refs.items()
        for variant, ref in variants.items()
        if ref is not None
    }
    return SourceView(state.source.name, refs, state.ref("ingest") if not stale else None, stale)


class Refresh:
    """One refresh of a configured collection.

    Parameters
    ----------
    config : RunConfig
    execute : callable
        Runs a plan.
    notify : callable, optional
        Receives what people should know, as soon as it is known.
    """

    def __init__(
        self, config: RunConfig, execute: Execute, notify: Callable[[Notice], None] | None = None
    ) -> None:
        self.config = config
        self._execute = execute
        self._notify = notify
        self._scores: dict[str, Scores] = {}
        self._runs: dict[str, str] = {}
        self._notes: list[str] = []
        self._complete = True

    def run(self, force: bool = False) -> RefreshResult:
        """Do what is needed; with `force` even if nothing changed."""
        known = self._load()
        merged = self._merge_answers(known)
        view = look(self.config)
        before = known.get("states", {}).get(self._digest)
        if before and not force and self._is_unchanged(before, view):
            notes = tuple(self._notes)
            return RefreshResult(view.name, cached=True, merged=merged, runs=before["runs"], notes=notes)
        last = before or known.get("states", {}).get(known.get("last", ""), {})
        trained = self._train() if "run" in self.config.schedule.refresh else None
        selected = self._select() if "auto" in self.config.schedule.refresh else None
        result: RunResult[Any] | None = selected or trained
        manifest = self._manifest_of(result) if result else view.manifest
        moves = compare_scores(last.get("scores", {}), self._scores)
        champion, is_new = describe_champion(selected.products) if selected else ("", False)
        found = RefreshResult(
            view.name,
            causes=tuple(self._causes(last, manifest, view)),
            moves=tuple(moves),
            drop=selected.products.drop if selected else self._find_drop(moves),
            champion=champion,
            new_champion=is_new,
            merged=merged,
            gained=tuple(self._gained(selected)),
            runs=dict(self._runs),
        )
        self._report(found, result)
        experiment = selected.products.experiment_name if selected else None
        done = self._label(found, experiment)
        self._remember(manifest)
        return done

    def _report(self, found: RefreshResult, result: RunResult[Any] | None) -> None:
        """Send the notices now: the next refresh would not find a new champion again if this one fails."""
        for notice in found.notices(collection_name(self.config)):
            if self._notify is not None:
                self._notify(notice)
        if found.drop and result is not None:
            self._mark(result, found.drop)

    def _label(self, found: RefreshResult, experiment: str | None) -> RefreshResult:
        """Annotate the items without labels, and write the queue of those to label next."""
        annotated, files = 0, list[Path]()
        if "annotate" in self.config.schedule.refresh:
            annotated, files = self._annotate(experiment)
        return replace(
            found,
            annotated=annotated,
            files=tuple(files),
            queue=tuple(self._write_queue(experiment)),
            runs=dict(self._runs),
            notes=tuple(self._notes),
        )

    def _train(self) -> RunResult[TrainingProducts]:
        result: RunResult[TrainingProducts] = self._execute(TrainingPlan(self.config))
        products, store = result.products, result.store
        rows = [row for ref in products.scores.values() if ref for row in load_scores(store, ref)]
        titles = {name: get_method(name).title for name in products.scores}
        self._note("run", result, run_scores(rows, titles))
        return result

    def _select(self) -> RunResult[SelectionResult]:
        plan = SelectionPlan(self.config, tolerance=self.config.schedule.tolerance)
        result: RunResult[SelectionResult] = self._execute(plan)
        self._note("auto", result, choice_scores(result.products.choice))
        ended = str(plan.budget.over())
        if any(ended in one.reason for one in result.products.choice.results):
            self._complete = False
            self._notes.append(f"{ended} before every candidate was scored; the next refresh continues")
        return result

    def _note(self, kind: str, result: RunResult[Any], scores: Scores) -> None:
        self._scores[kind], self._runs[kind] = scores, result.run_id
        if result.untracked:
            self._complete = False
            self._notes.append(f"not tracked: {result.untracked}")

    def _annotate(self, experiment: str | None) -> tuple[int, list[Path]]:
        """Annotate the items without labels with the champion; write the files into the home folder."""
        if not self.config.tracking.enabled:
            self._notes.append("nothing was annotated: tracking.enabled is false, so there is no champion")
            return 0, []
        try:
            return annotate_source(self.config, self._execute, experiment, self._runs)
        except TrackingError as error:
            self._complete = False
            self._notes.append(f"nothing was annotated: {error}")
            return 0, []

    def _merge_answers(self, known: dict[str, Any]) -> str:
        """Merge the answers if their file is new; what cannot be merged is a note, and is tried again."""
        from flows.refresh_labels import digest_answers, merge_answers

        digest = digest_answers(self.config)
        if digest is None or digest == known.get("answers"):
            return ""
        try:
            merged = merge_answers(self.config)
        except (ConfigError, SourceError) as error:
            self._notes.append(f"answers were not merged: {error}")
            return ""
        known["answers"] = digest
        self._store.write_pointer(_pointer(self.config), known)
        return merged

    def _write_queue(self, experiment: str | None) -> list[Path]:
        """The items to label next, by the champion; none if nothing is left to label."""
        from flows.refresh_labels import write_refreshed_queue

        if not self.config.schedule.queue:
            return []
        try:
            return write_refreshed_queue(self.config, self._execute, experiment)
        except (ConfigError, SourceError, TrackingError) as error:
            self._notes.append(f"no queue was written: {error}")
            return []

    def _gained(self, selected: RunResult[SelectionResult] | None) -> list[str]:
        from flows.label_care import report_gain

        gain = report_gain(self.config, selected) if selected else None
        return gain.sentences() if gain else []

    def _find_drop(self, moves: Sequence[ScoreMove]) -> str:
        """A drop of the best score of `run`, for refreshes without `auto`."""
        return find_drop(moves, self.config.evaluation.sort_by, self.config.schedule.tolerance)

    def _manifest_of(self, result: RunResult[Any]) -> ArtifactRef | None:
        return next((one.ref for one in result.stages if one.label == "ingest"), None)

    def _causes(self, last: Mapping[str, Any], manifest: ArtifactRef | None, view: SourceView) -> list[str]:
        """What changed since the last refresh, in words."""
        if not last:
            return ["the first refresh of this collection"]
        causes = []
        if items := _item_changes(self._store, last.get("manifest"), manifest):
            causes.append(f"items: {items}")
        before, now = flatten_params(last["settings"]), flatten_params(known_settings(self.config))
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        causes += [f"{name}: {before.get(name, '–')} → {now.get(name, '–')}" for name in changed[:_SHOWN]]
        if last["version"] != __version__:
            causes.append(f"labelscape {last['version']} → {__version__}")
        rest = "nothing" if last["complete"] else "nothing; the last refresh was not complete"
        return causes or list(view.stale[:_SHOWN]) or [rest]

    @property
    def _store(self) -> ArtifactStore:
        return open_workspace(self.config, Reporter()).store

    @property
    def _digest(self) -> str:
        schedule = self.config.schedule
        queue = [schedule.queue] if schedule.queue else []
        text = canonical_json([known_settings(self.config), schedule.refresh, *queue])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _load(self) -> dict[str, Any]:
        return self._store.read_pointer(_pointer(self.config)) or {}

    def _is_unchanged(self, before: Mapping[str, Any], view: SourceView) -> bool:
        """Whether the last refresh was complete, and its data, version and runs are still there."""
        if view.stale or not before["complete"] or before["version"] != __version__:
            return False
        log = RunLog(self._store)
        try:
            for one in before["runs"].values():
                log.find(one)
        except StoreError:
            return False
        return bool(before["data"] == dict(view.refs))

    def _remember(self, manifest: ArtifactRef | None) -> None:
        known = self._load()  # again: another refresh may have ended meanwhile
        state = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": __version__,
            "settings": known_settings(self.config),
            "data": self._refreshed_data(manifest),
            "manifest": manifest.to_json() if manifest else None,
            "scores": self._scores,
            "runs": self._runs,
            "complete": self._complete,
        }
        states = {**known.get("states", {})}
        states.pop(self._digest, None)
        kept = dict(list(states.items())[-(_REMEMBERED - 1) :])
        content = {**known, "last": self._digest, "states": {**kept, self._digest: state}}
        self._store.write_pointer(_pointer(self.config), content)

    def _refreshed_data(self, manifest: ArtifactRef | None) -> dict[str, str]:
        """The artifacts of the first stages; none if the source changed during this refresh."""
        try:
            view = look(self.config)
        except SourceError:  # the next refresh reports it
            return {}
        is_same = manifest is None or (view.manifest is not None and view.manifest.digest == manifest.digest)
        return dict(view.refs) if is_same else {}

    def _mark(self, result: RunResult[Any], drop: str) -> None:
        """Tag the run in MLflow, so that a drop is seen there too."""
        if (ref := result.products.tracked) is None:
            return
        tracked = load_tracked(result.store, ref)
        tracker = make_tracker(self.config.tracking.uri, result.home)
        with suppress(TrackingError), tracker.connected() as client:
            client.set_tag(tracked.parent_id, DROP_TAG, drop)


def _item_changes(store: ArtifactStore, last: Any, now: ArtifactRef | None) -> str:
    if not last or now is None or last["digest"] == now.digest:
        return ""
    try:
        before = unpack_manifest(store.read(ArtifactRef.from_json(last)))
        return compare_readings(before, unpack_manifest(store.read(now))).describe()
    except StoreError:
        return "changed; the earlier list is no longer stored"


def _pointer(config: RunConfig) -> str:
    return f"refresh-{source_id(config.source)}"
