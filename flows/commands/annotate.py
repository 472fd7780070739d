"""`annotate`: label new items, or the rest of a collection, with the model of a tracked run."""

import argparse
import json
from pathlib import Path

from flows.annotate import (
    AnnotationPlan,
    ModelSelector,
    annotation_config,
    choose_model,
    find_experiment_of,
    name_model,
)
from flows.annotation_summary import AnnotationSummary, as_record, as_text
from flows.commands.options import Subparsers, add_command, add_tracker, open_tracker, read_default_config
from flows.config import DEFAULT_FILE, RunConfig, find_home, load_config, place_from
from flows.rerun import command_here
from flows.runner import Run
from flows.summary import problem_lines
from flows.terminal import show
from storage.artifacts.disk import store_errors
from storage.artifacts.schemas import unpack_manifest
from storage.credentials import keep
from storage.errors import ConfigError
from storage.paths import expand_path
from storage.urls import redact_argument
from tasks.annotation import Request, load_annotations
from tasks.annotation.files import ENDINGS, write_annotations, write_labels
from tasks.annotation.predicting import CONFIDENCE
from tasks.settings import SourceSettings
from tasks.stages.features import load_skipped

_OUT = "annotations"
_SOURCE_HELP = (
    "the new items, in any form that `run` reads: a folder of images, sound, clips or texts, a table, an "
    "array, an ARFF file, a sparse matrix; with --unlabeled, the collection"
)
# What `--set` can change here; everything else is decided by the model.
_SETTABLE = ("source.", "store.", "executor")


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(commands, "annotate", annotate, json=True, staged=True)
    parser.add_argument("source", metavar="SOURCE", help=_SOURCE_HELP)
    parser.add_argument("--run", help="run id (default: the champion of `auto`, else the newest tracked run)")
    parser.add_argument("--method", help="method of that run (default: the one with the best score)")
    parser.add_argument(
        "--experiment",
        help="experiment of the champion or run (default: that of this source or of the configured one, or "
        "the only one)",
    )
    add_tracker(parser)
    parser.add_argument(
        "--unlabeled",
        "--unlabelled",
        action="store_true",
        help="read SOURCE with its labels, and annotate exactly the items without",
    )
    parser.add_argument(
        "--write-labels",
        metavar="PATH",
        help="with --unlabeled: write given and predicted labels as a CSV file that `run` reads "
        "(--set source.labels=PATH)",
    )
    parser.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="write only labels of which at least this share should be right, such as .9, or abstain",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="C",
        help=f"confidence of that promise (default: {CONFIDENCE})",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how SOURCE is read, such as source.id=name (default: as the collection of the model was read); "
        "may be repeated",
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="PATH",
        help="table with the features of the new items, for a model trained with table:PATH "
        "(default: the table of the model); may be repeated",
    )
    parser.add_argument("--out", help="file name without ending (default: annotations in this folder)")


def annotate(options: argparse.Namespace) -> int:
    """Write labels with scores and evidence; print what to expect of them, and the skipped items.

    If no Prefect server is configured or running, none is started: starting one takes longer than annotating
    a small folder.
    """
    request = read_request(options)
    here, given = read_settings(options)
    source, home = expand_path(options.source, "argument"), find_home(here)
    out = choose_out(options.out, source, home)
    labels = choose_labels_file(options.write_labels, source, home)
    tracker = open_tracker(options)
    experiment = options.experiment
    if not (experiment or options.run):
        experiment = find_experiment_of(tracker, here, str(source))
    model = choose_model(tracker, ModelSelector(options.run, options.method, experiment))
    request.check_model(model.fitted)
    options.session.reporter.say(f"model      {name_model(model)}")
    labeled = model.fitted.labeled
    config = annotation_config(
        options.source, here, labeled.source if labeled else None, given, request.unlabeled
    )
    plan = AnnotationPlan(
        config,
        model,
        tracker.uri if options.uri else None,
        tuple(str(expand_path(table, "--table").absolute()) for table in options.table),
        request,
        tuple(options.set),
        labels is not None,
    )
    keep(plan.uri, home)
    _show(options, plan, out, labels)
    return 0


def _show(options: argparse.Namespace, plan: AnnotationPlan, out: Path, labels: Path | None) -> None:
    """Annotate, write the files and print the summary."""
    result = Run(plan, session=options.session).execute(options.verbose)
    store, products = result.store, result.products
    found = load_annotations(store, products.annotations)
    files = write_annotations(found, out, plan.model.fitted.facts)
    items = unpack_manifest(store.read(products.manifest))
    manifest = items if plan.request.unlabeled else None
    separator = plan.config.source.label_separator
    summary = AnnotationSummary(
        result,
        plan.model,
        found,
        load_skipped(store, products.features),
        files,
        write_labels(manifest, found, labels, separator) if labels and manifest else None,
        int((manifest.labels >= 0).all(axis=1).sum()) if manifest else None,
        [] if manifest else [(file, message) for file, _, message in items.notes],
    )
    if options.json:
        show(json.dumps(as_record(summary), indent=2, ensure_ascii=False))
        return
    problems = problem_lines(None, result.unrecorded, "", command_here(plan.config, "sync"))
    show([*as_text(summary), *problems])


def read_request(options: argparse.Namespace) -> Request:
    """What is asked for besides labels; ConfigError for options that do not fit together."""
    if options.confidence is not None and options.precision is None:
        raise ConfigError("--confidence belongs to a promise; give --precision too, such as --precision .9.")
    if options.write_labels and not options.unlabeled:
        raise ConfigError(
            "--write-labels writes the labels of a whole collection; give --unlabeled too, or use the files "
            "of --out."
        )
    confidence = CONFIDENCE if options.confidence is None else options.confidence
    request = Request(options.precision, confidence, options.unlabeled)
    request.check_numbers()
    return request


def read_settings(options: argparse.Namespace) -> tuple[RunConfig, SourceSettings]:
    """The configuration of this folder with `--set`, and the settings of the source that `--set` states."""
    for text in options.set:
        key = text.partition("=")[0].strip()
        if not key.startswith(_SETTABLE) or key == "source.path":
            raise ConfigError(
                f"--set {redact_argument(text)!r}: features and decisions are those of the model; annotate "
                "takes settings of the source (source.id, source.text, ...), of the store, and executor."
            )
    file = DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    apart = [text for text in options.set if not text.strip().startswith("source.")]
    here = load_config(file, apart, home=options.home) if apart else read_default_config(options)
    own = [text for text in options.set if text not in apart]
    path = place_from(Path(), options.source)
    stated = load_config(None, own, source={"path": path}).source
    return here, stated.model_copy(update={"path": path})


def choose_out(given: str | None, source: Path, home: Path) -> Path:
    """Return the file that annotations are written to, without its ending; its folder is created.

    Refused before any work is done: files in the home folder, and files that the next run would read as data.
    """
    out = expand_path(given or _OUT, "--out").absolute()
    files = [out.with_name(out.name + ending) for ending in ENDINGS] if out.name else []
    inside = [one for one in (source, home) if one.is_dir() and out.resolve().is_relative_to(one.resolve())]
    blocked = next((file for file in files if file.is_dir()), None)
    advice = "choose another place with --out FOLDER/NAME"
    if not files:
        raise ConfigError(f"--out {given!r} names no file; {advice}.")
    if inside:
        what = "the items to annotate, which would contain them" if inside[0] == source else "the home folder"
        raise ConfigError(f"annotations would be written to {out}, inside {what}; {advice}.")
    if source.resolve() in (file.resolve() for file in files):
        raise ConfigError(f"--out {given} would overwrite {source}; {advice}.")
    if blocked is not None:
        raise ConfigError(f"{blocked} is a folder, so annotations cannot be written there; {advice}.")
    with store_errors(out.parent, "--out"):
        out.parent.mkdir(parents=True, exist_ok=True)
    return out


def choose_labels_file(given: str | None, source: Path, home: Path) -> Path | None:
    """Return the file that labels are written to; its folder is created. None if none is wanted."""
    if given is None:
        return None
    path = expand_path(given, "--write-labels").absolute()
    if path.suffix.lower() != ".csv":
        raise ConfigError(
            f"--write-labels {given!r}: labels are written as CSV; give a name such as labels.csv."
        )
    inside = any(one.is_dir() and path.resolve().is_relative_to(one.resolve()) for one in (source, home))
    if inside or path.resolve() == source.resolve() or path.is_dir():
        raise ConfigError(
            f"--write-labels {given}: it must not replace data, so give a file outside {source} and the home "
            "folder."
        )
    with store_errors(path.parent, "--write-labels"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path
