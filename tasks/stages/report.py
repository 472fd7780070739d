"""Report: figures, tables and the content of the page as one artifact; the page is rendered from it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from embedding_core.registry import get_method
from storage.artifacts.artifact import Artifact
from storage.artifacts.disk import create_file, remove_tree, store_errors, temporary_path
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.locks import hold_lock
from storage.artifacts.regular_files import open_regular
from storage.artifacts.run_log import LoggedRun
from storage.artifacts.schemas import (
    pack_files,
    unpack_embedding,
    unpack_files,
    unpack_manifest,
    unpack_matrix,
)
from storage.artifacts.store import ArtifactStore
from storage.permissions import PRIVATE_FOLDER
from storage.sources import OpenedSource
from storage.tracking.models import check_file_name
from tasks.dataset import Dataset, load_dataset
from tasks.report.data import EmbeddingView, NoteRow, ReportData, ShownCase, Thumb
from tasks.settings import EvaluationSettings, ReportSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data
from tasks.stages.evaluation import load_scores, sampling_note
from tasks.stages.ingest import changed_meanwhile

_THUMB_PIXELS = 200
_EMBEDDING = re.compile(r"embedding_.*\.png")
# File in a report's folder with what its page shows besides the artifact; it shows if the page is outdated.
_MARK = "lineage.json"


def stage(
    settings: ReportSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: OpenedSource,
    data: Data,
    correlation: ArtifactRef | None,
    embeddings: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Stage:
    """Build the stage that draws the figures and tables of a run."""
    inputs = {"manifest": data.manifest, "features": data.features, "correlation": correlation}
    inputs |= {f"embedding[{name}]": ref for name, ref in embeddings.items()}
    inputs |= {f"evaluation[{name}]": ref for name, ref in scores.items()}
    return Stage(
        name="report",
        code=("tasks.report.content", "tasks.report.judging"),
        params={"title": title, "sort_by": evaluation.sort_by, **settings.model_dump(mode="json")},
        inputs={name: digest_of(ref) for name, ref in inputs.items()},
        produce=lambda: _draw(settings, evaluation, title, source, inputs, embeddings, scores, workspace),
    )


@dataclass(frozen=True)
class Circumstances:
    """How a run obtained its results. The page shows it; the report's artifact does not depend on it.

    Attributes
    ----------
    stages : mapping of str to ArtifactRef
        The artifact of each stage, by label.
    damaged : sequence of mappings
        Artifacts that were quarantined and recomputed: `artifact`, `reason`.
    run : str
        Id of the run; empty if it is not known yet.
    links : mapping of str to str
        Addresses of the pages of the run elsewhere, by name.
    """

    stages: Mapping[str, ArtifactRef] = field(default_factory=dict)
    damaged: Sequence[Mapping[str, str]] = ()
    run: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Canonical text: equal for equal circumstances."""
        keys = {label: ref.key for label, ref in self.stages.items()}
        shown = {"damaged": [dict(one) for one in self.damaged], "run": self.run, "links": dict(self.links)}
        return canonical_json({"stages": keys, **shown})


def compose_report(ref: ArtifactRef, store: ArtifactStore, around: Circumstances) -> dict[str, bytes]:
    """Return the files of a report by name, with its page."""
    from tasks.maintenance.lineage import LineageGraph, flatten_lineage
    from tasks.map.page import render_map
    from tasks.report.page import CONTENT, MAP_PAGE, PAGE, render_page

    files = unpack_files(store.read(ref))
    maps = {}
    if mapped := around.stages.get("map"):
        pictures = around.stages.get("map[pictures]")
        shown = unpack_files(store.read(pictures)) if pictures else {}
        maps[MAP_PAGE] = render_map(unpack_files(store.read(mapped)), shown, around.run)
    damaged = [(one["artifact"], one["reason"]) for one in around.damaged]
    graph = LineageGraph(store, around.stages.values()) if around.stages else None
    family = flatten_lineage(graph.of_results(around.stages)) if graph else []
    map_page = next(iter(maps), "")
    page = render_page(files, damaged, family, around.run, map_page, around.links)
    return {PAGE: page, **maps, **{name: data for name, data in files.items() if name != CONTENT}}


def embedding_figure(ref: ArtifactRef, store: ArtifactStore) -> bytes | None:
    """The figure of the first method's embedding; None if no method has one."""
    files = unpack_files(store.read(ref))
    return next((data for name, data in files.items() if _EMBEDDING.fullmatch(name)), None)


def report_of(run: LoggedRun) -> ArtifactRef | None:
    """The artifact after which the folder of a run's report is named; None if it has no report."""
    return run.stages.get("choice" if run.kind == "auto" else "report")


def report_page(ref: ArtifactRef, home: Path) -> Path:
    """The page of a report in the home folder."""
    from tasks.report.page import PAGE

    return home / "reports" / ref.digest[:12] / PAGE


def write_report(ref: ArtifactRef, workspace: Workspace, around: Circumstances | None = None) -> Path:
    """Write a report's files to the home folder; return the path of its page."""
    from tasks.report.page import PAGE, templates_digest

    around = around or Circumstances()
    folder = report_page(ref, workspace.home).parent
    mark = f"{around.to_json()}\n{templates_digest()}"
    return lay_out(folder, PAGE, mark, lambda: compose_report(ref, workspace.store, around))


def lay_out(folder: Path, page_name: str, mark: str, compose: Callable[[], Mapping[str, bytes]]) -> Path:
    """Write all files to a folder atomically, unless it has the same mark already; return its page."""
    page, shown = folder / page_name, folder / _MARK
    with store_errors(folder):
        if page.exists() and shown.exists() and shown.read_text(encoding="utf-8") == mark:
            return page
        with hold_lock(folder.parent / f".{folder.name}.lock"):
            place = temporary_path(folder)
            remove_tree(place)
            place.mkdir(PRIVATE_FOLDER)
            _write_files({**compose(), _MARK: mark.encode()}, place)
            remove_tree(folder)
            place.rename(folder)
    return page


def _write_files(files: Mapping[str, bytes], place: Path) -> None:
    for name, data in files.items():
        target = place / check_file_name(name)
        target.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        with create_file(target) as file:
            file.write(data)


def _draw(
    settings: ReportSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: OpenedSource,
    inputs: Mapping[str, ArtifactRef | None],
    embeddings: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Artifact:
    from tasks.report.content import draw_report
    from tasks.report.judging import load_judged
    from tasks.report.quality import most_doubtful, most_wrong

    store = workspace.store
    known = {name: ref for name, ref in inputs.items() if ref is not None}
    manifest = unpack_manifest(store.read(known["manifest"]))
    items = load_dataset(store, known["manifest"], known["features"])
    labeled = (items.Y >= 0).all(axis=1)
    judged = load_judged(items, scores, evaluation.sort_by, store)
    cases = {}
    if judged:
        cases["Most doubtful"] = most_doubtful(items.Y, judged, items.label_names)
        cases["Most wrong"] = most_wrong(items.Y, judged, items.label_names)
    pictures = _Pictures(source, items, workspace) if settings.thumbnails else None
    data = ReportData(
        title=title,
        source=source.name,
        n_items=len(items.ids),
        n_labeled=int(labeled.sum()),
        label_names=manifest.label_names,
        Y=items.Y,
        correlation=unpack_matrix(store.read(known["correlation"])).values,
        embeddings={name: _view(name, ref, workspace) for name, ref in embeddings.items() if ref},
        scores=[row for ref in scores.values() if ref for row in load_scores(store, ref)],
        method_titles={name: get_method(name).title for name in scores},
        baselines={name for name in scores if get_method(name).baseline},
        sampled=sampling_note(store, scores.values(), evaluation.sort_by),
        notes=_notes(manifest.notes, items.errors),
        facts={f"{name} digest": ref.digest for name, ref in known.items()},
        thumbnails=_thumbnails(settings.thumbnails, items, pictures),
        judged=judged,
        cases={
            title: [
                ShownCase(
                    items.ids[one.row],
                    one.reason,
                    _labels_of(items, one.row) or [],
                    pictures.shrink(one.row) if pictures else b"",
                )
                for one in found
            ]
            for title, found in cases.items()
        },
    )
    return pack_files(draw_report(data, sort_by=evaluation.sort_by))


def _view(name: str, ref: ArtifactRef, workspace: Workspace) -> EmbeddingView:
    embedding = unpack_embedding(workspace.store.read(ref))
    return EmbeddingView(get_method(name).title, embedding.coordinates, embedding.eigenvalues)


def _notes(notes: Sequence[NoteRow], errors: Mapping[str, str]) -> list[NoteRow]:
    """Notes of ingest, and items whose features could not be read."""
    return [*notes, *((name, None, f"skipped: {error}") for name, error in errors.items())]


class _Pictures:
    """Small pictures of items by row."""

    def __init__(self, source: OpenedSource, items: Dataset, workspace: Workspace) -> None:
        self._ids = items.ids
        self._paths: Mapping[str, Path | None] = {}
        if "images" in source.contents:
            collection = source.read(workspace.cache_dir)
            self._paths = dict(zip(collection.ids, collection.paths or [], strict=True))

    def shrink(self, row: int) -> bytes:
        """A small JPEG of an item; empty if it has no picture."""
        path = self._paths.get(self._ids[row])
        return b"" if path is None else _shrink(path)


def _thumbnails(count: int, items: Dataset, pictures: _Pictures | None) -> list[Thumb]:
    """Thumbnails of items spread evenly over the collection; none unless items have images."""
    if pictures is None:
        return []
    chosen = np.unique(np.linspace(0, len(items.ids) - 1, min(count, len(items.ids))).astype(int))
    return [
        Thumb(items.ids[row], jpeg, _labels_of(items, int(row)))
        for row in chosen
        if (jpeg := pictures.shrink(int(row)))
    ]


def _labels_of(items: Dataset, row: int) -> list[str] | None:
    """Labels of an item; None if it is unlabeled."""
    if (items.Y[row] < 0).all():
        return None
    return [name for name, given in zip(items.label_names, items.Y[row], strict=True) if given > 0]


def _shrink(path: Path) -> bytes:
    from embedding_core.features.images import UnreadableImage
    from embedding_core.features.thumbnails import encode_jpeg, shrink_image

    try:
        with open_regular(path) as file:
            return encode_jpeg(shrink_image(file.read(), _THUMB_PIXELS), quality=85)
    except (OSError, UnreadableImage) as error:  # it was readable when its features were extracted
        raise changed_meanwhile(str(path)) from error
