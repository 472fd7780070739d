"""`export`: the labels of a run, given and predicted, in the formats of other tools."""

import argparse
import json
from pathlib import Path

import numpy as np

from flows.commands.options import Subparsers, add_command, read_default_config
from flows.config import find_home
from flows.label_care import choose_folder
from flows.stores import open_store
from flows.terminal import show
from storage.artifacts.annotations import unpack_annotations
from storage.artifacts.regular_files import open_regular
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.schemas import Manifest, unpack_manifest
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError
from storage.label_exports import FORMATS, LabeledItem, LabelExport, copy_pictures, write_labels_as
from storage.quoting import count_of
from tasks.annotation.files import LABEL_TABLES, check_separator

_PICTURES = "images"


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "export", export, json=True)
    parser.add_argument(
        "run", metavar="RUN", help="id of a run, auto or annotate, as `store ls --runs` lists it"
    )
    parser.add_argument("--to", default="csv", metavar="FORMAT", help=f"{', '.join(FORMATS)} (default: csv)")
    parser.add_argument("--out", help="folder of the files (default: export-RUN in this folder)")
    parser.add_argument("--copy", action="store_true", help="copy the pictures beside the label file")


def export(options: argparse.Namespace) -> int:
    """Write the labels, and with `--copy` the pictures, as other tools and our readers read them."""
    if options.to not in FORMATS:
        raise ConfigError(f"--to {options.to!r} is unknown; choose one of {', '.join(FORMATS)}.")
    config = read_default_config(options)
    store, home = open_store(config), find_home(config)
    run = RunLog(store).find(options.run)
    ref = run.stages.get("ingest")
    if ref is None:
        raise ConfigError(f"run {run.id} has no items to export; give a run of `run`, `auto` or `annotate`.")
    manifest = unpack_manifest(store.read(ref))
    folder = Path(run.source)
    if (options.to != "csv" or options.copy) and manifest.source_kind != _PICTURES:
        raise ConfigError(
            f"--to {options.to}: run {run.id} is of {manifest.source_kind}, "
            "and this format is for folders of pictures. Choose --to csv without --copy."
        )
    out = choose_folder(options.out, f"export-{run.id}", folder, home)
    made = _collect(run, manifest, store, folder if options.to == "coco" else None)
    if options.to == "csv":  # the other formats have lists of labels
        check_separator(set(made.label_names), made.separator, "export")
    file = write_labels_as(options.to, made, out)
    copied = copy_pictures(options.to, folder, manifest.ids, out) if options.copy else 0
    origins = [one.origin for one in made.items]
    counts = {kind or "unlabeled": origins.count(kind) for kind in ("given", "predicted", "")}
    empty = sum(one.labels == () for one in made.items)
    if options.json:
        record = {"run": run.id, "file": str(file), "copied": copied, **counts, "empty": empty}
        show(json.dumps(record, indent=2))
        return 0
    show(f"labels     {file}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items()))
    if empty and options.to in ("csv", "hf"):
        items = count_of(empty, "item has", "items have")
        show(f"empty      {items} no label, which --to {options.to} cannot tell from unlabeled")
    if copied:
        show(f"copied     {count_of(copied, 'picture')} to {out}")
    return 0


def _collect(run: LoggedRun, manifest: Manifest, store: ArtifactStore, sizes_in: Path | None) -> LabelExport:
    """Given labels of the items, and predicted ones where the run predicted some."""
    ref = run.stages.get("annotation")
    found = unpack_annotations(store.read(ref)) if ref else None
    names = list(manifest.label_names)
    predicted: dict[str, LabeledItem] = {}
    if found is not None:
        names = sorted({*names, *found.label_names})
        known = np.array(found.label_names, dtype=object)
        for name, row, scores in zip(found.ids, found.labels, found.scores, strict=True):
            labels = tuple(known[row > 0])
            sure = {label: float(scores[found.label_names.index(label)]) for label in labels}
            predicted[name] = LabeledItem(name, labels, "predicted", sure)
    separator = (
        str(run.config.get("source", {}).get("label_separator", "|")) if run.kind != "annotate" else "|"
    )
    given = np.array(manifest.label_names, dtype=object)
    items = []
    for name, row in zip(manifest.ids, manifest.labels, strict=True):
        is_given = bool(manifest.label_names) and bool((row >= 0).all())
        own = tuple(given[row > 0]) if is_given else None
        one = predicted.get(name) or LabeledItem(name, own, "given" if is_given else "")
        size = _picture_size(sizes_in / name) if sizes_in is not None else None
        items.append(LabeledItem(one.id, one.labels, one.origin, one.scores, size))
    column = LABEL_TABLES.get(manifest.source_kind, "id")
    return LabelExport(items, names, manifest.single_label, column, separator)


def _picture_size(path: Path) -> tuple[int, int] | None:
    from PIL import Image, UnidentifiedImageError

    try:
        with open_regular(path) as file, Image.open(file) as picture:
            return picture.size
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
