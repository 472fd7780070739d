"""Report: figures, tables and one page, drawn from the artifacts and kept as one."""

import io
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from mimetypes import guess_type
from pathlib import Path

import numpy as np

from embedding_core.registry import get_method
from storage.artifacts.disk import store_errors, temporary_path
from storage.artifacts.keys import ArtifactRef, canonical_json
from storage.artifacts.locks import hold_lock
from storage.artifacts.schemas import (
    StoredFile,
    pack_files,
    unpack_embedding,
    unpack_files,
    unpack_manifest,
    unpack_matrix,
)
from storage.artifacts.store import Artifact, ArtifactStore
from storage.sources import Source
from storage.tracking.models import check_file_name
from tasks.dataset import Dataset, load_dataset
from tasks.report.data import EmbeddingView, NoteRow, ReportData, Thumb
from tasks.settings import EvaluationSettings, ReportSettings
from tasks.stage import Stage, Workspace, digest_of
from tasks.stages.embedding import Data
from tasks.stages.evaluation import load_scores

_THUMB_PIXELS = 200
_PAGE = "index.html"
# What a laid-out page shows beside the results.
_AROUND = "lineage.json"


def stage(
    settings: ReportSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: Source,
    data: Data,
    correlation: ArtifactRef | None,
    embeddings: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Stage:
    """The report's files."""
    inputs = {"manifest": data.manifest, "features": data.features, "correlation": correlation}
    inputs |= {f"embedding[{name}]": ref for name, ref in embeddings.items()}
    inputs |= {f"evaluation[{name}]": ref for name, ref in scores.items()}
    return Stage(
        name="report",
        code=("tasks.report.page",),
        params={"title": title, "sort_by": evaluation.sort_by, **settings.model_dump(mode="json")},
        inputs={name: digest_of(ref) for name, ref in inputs.items()},
        produce=lambda: _draw(settings, evaluation, title, source, inputs, embeddings, scores, workspace),
    )


@dataclass(frozen=True)
class Circumstances:
    """How a run came to its results; the report shows it, though the same results may come about otherwise.

    Attributes
    ----------
    stages : mapping of str to ArtifactRef
        The artifact of each stage by its label.
    damaged : sequence of mappings
        Artifacts found damaged and computed anew: `artifact`, `reason`.
    """

    stages: Mapping[str, ArtifactRef] = field(default_factory=dict)
    damaged: Sequence[Mapping[str, str]] = ()

    def to_json(self) -> str:
        """One text for the same circumstances."""
        keys = {label: ref.key for label, ref in self.stages.items()}
        return canonical_json({"stages": keys, "damaged": [dict(one) for one in self.damaged]})


def compose_report(ref: ArtifactRef, store: ArtifactStore, around: Circumstances) -> dict[str, bytes]:
    """The files of a report by name, its page with the lineage of what it shows."""
    from tasks.maintenance.lineage import LineageGraph, flatten_lineage
    from tasks.report.lineage_figure import lineage_part
    from tasks.report.page_parts import append_section, word_table

    files = {file.name: file.data for file in unpack_files(store.read(ref))}
    page = files[_PAGE].decode()
    if around.damaged:
        rows = [(one["artifact"], one["reason"]) for one in around.damaged]
        table = word_table(("artifact", "what was wrong"), rows)
        text = "<p>These were found damaged, set aside and computed anew.</p>"
        page = append_section(page, "damage", "Damage repaired", text + table)
    if around.stages:
        family = flatten_lineage(LineageGraph(store, around.stages.values()).of_results(around.stages))
        page = append_section(page, "lineage", "Lineage", lineage_part(family))
    return {**files, _PAGE: page.encode()}


def write_report(ref: ArtifactRef, workspace: Workspace, around: Circumstances | None = None) -> Path:
    """Lay a report's files out for people to open; returns its page."""
    around = around or Circumstances()
    folder = workspace.home / "reports" / ref.digest[:12]
    return lay_out(folder, _PAGE, around.to_json(), lambda: compose_report(ref, workspace.store, around))


def lay_out(folder: Path, page_name: str, mark: str, compose: Callable[[], Mapping[str, bytes]]) -> Path:
    """Write files to a folder, all or none, unless those of the same mark are there; returns its page."""
    page, shown = folder / page_name, folder / _AROUND
    with store_errors(folder):
        if page.exists() and shown.exists() and shown.read_text(encoding="utf-8") == mark:
            return page
        with hold_lock(folder.parent / f".{folder.name}.lock"):
            place = temporary_path(folder)
            shutil.rmtree(place, ignore_errors=True)
            _write_files({**compose(), _AROUND: mark.encode()}, place)
            shutil.rmtree(folder, ignore_errors=True)
            place.rename(folder)
    return page


def _write_files(files: Mapping[str, bytes], place: Path) -> None:
    for name, data in files.items():
        target = place / check_file_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _draw(
    settings: ReportSettings,
    evaluation: EvaluationSettings,
    title: str,
    source: Source,
    inputs: Mapping[str, ArtifactRef | None],
    embeddings: Mapping[str, ArtifactRef | None],
    scores: Mapping[str, ArtifactRef | None],
    workspace: Workspace,
) -> Artifact:
    from tasks.report.page import render_report

    store = workspace.store
    known = {name: ref for name, ref in inputs.items() if ref is not None}
    manifest = unpack_manifest(store.read(known["manifest"]))
    items = load_dataset(store, known["manifest"], known["features"])
    labeled = (items.Y >= 0).all(axis=1)
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
        notes=_notes(manifest.notes, items.errors),
        facts={f"{name} digest": ref.digest for name, ref in known.items()},
        thumbnails=_thumbnails(settings.thumbnails, source, items, workspace),
    )
    files = render_report(data, sort_by=evaluation.sort_by)
    return pack_files(
        StoredFile(name, guess_type(name)[0] or "text/plain", content) for name, content in files.items()
    )


def _view(name: str, ref: ArtifactRef, workspace: Workspace) -> EmbeddingView:
    embedding = unpack_embedding(workspace.store.read(ref))
    return EmbeddingView(get_method(name).title, embedding.coordinates, embedding.eigenvalues)


def _notes(notes: Sequence[NoteRow], errors: Mapping[str, str]) -> list[NoteRow]:
    """What ingest noted and what features could not read."""
    return [*notes, *((name, None, f"skipped: {error}") for name, error in errors.items())]


def _thumbnails(count: int, source: Source, items: Dataset, workspace: Workspace) -> list[Thumb]:
    """Small pictures of items spread evenly over the collection, where items are images."""
    if not count or source.content != "images":
        return []
    collection = source.read(workspace.cache_dir)
    paths = dict(zip(collection.ids, collection.paths or [], strict=True))
    chosen = np.unique(np.linspace(0, len(items.ids) - 1, min(count, len(items.ids))).astype(int))
    return [
        Thumb(
            items.ids[row],
            _shrink(paths[items.ids[row]].read_bytes()),
            _carried(items, int(row)),
        )
        for row in chosen
    ]


def _carried(items: Dataset, row: int) -> list[str] | None:
    """Labels of an item; None where it is unlabeled."""
    if (items.Y[row] < 0).all():
        return None
    return [name for name, given in zip(items.label_names, items.Y[row], strict=True) if given > 0]


def _shrink(data: bytes) -> bytes:
    from PIL import Image

    from embedding_core.features.images import decode_image

    picture = Image.fromarray(decode_image(data))
    picture.thumbnail((_THUMB_PIXELS, _THUMB_PIXELS))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
