"""The pipeline: which stages are recomputed after which change, and their results."""

import os
import shutil
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from flows.pipeline import TrainingPlan
from flows.runner import Run
from flows.status import inspect_stages
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.schemas import (
    pack_features,
    pack_files,
    unpack_embedding,
    unpack_features,
    unpack_matrix,
)
from storage.artifacts.store import ArtifactStore
from storage.errors import ConfigError, LabelscapeError, SourceError
from tasks.dataset import load_dataset, load_features, load_graph, part_refs
from tasks.reporter import Reporter
from tasks.settings import TrackingSettings
from tasks.stage import Stage, Workspace, run_stage
from tasks.stages import tracking
from tasks.stages.embedding import Data, takes_graph
from tasks.stages.evaluation import load_scores
from tasks.stages.report import write_report
from tasks.stages.tracking import Facts
from tests.conftest import local_config, run_locally

ALL = {
    "ingest",
    "features",
    "affinity",
    "correlation",
    "embedding[mlda]",
    "embedding[multilabel_dle]",
    "model[1nn]",
    "model[1nn_zscore]",
    "model[svm]",
    "evaluation[mlda]",
    "evaluation[multilabel_dle]",
    "evaluation[1nn]",
    "evaluation[1nn_zscore]",
    "evaluation[svm]",
}


def spoil(path, value):
    """Overwrite a picture with another one that has another time stamp."""
    Image.fromarray(np.full((24, 32, 3), value, np.uint8)).save(path)
    os.utime(path, (time.time() - 1000, time.time() - 1000))


def statuses(source, home, *overrides):
    config = local_config(source, home, *overrides)
    return {one.label: one for one in inspect_stages(config)}


@pytest.mark.slow
def test_every_stage_once_then_nothing(picture_folder, tmp_path):
    first = run_locally(picture_folder, tmp_path / "home", report=True)
    second = run_locally(picture_folder, tmp_path / "home", report=True)
    assert first.computed == ALL | {"report", "map", "map[pictures]"}
    assert second.computed == set()
    assert {label: one.ref for label, one in first.outcomes.items()} == {
        label: one.ref for label, one in second.outcomes.items()
    }


def test_a_run_without_a_graph_can_be_tracked(tmp_path):
    ref = ArtifactRef("features", "0" * 64, "0" * 64, "features", 3)
    workspace = Workspace(tmp_path, ArtifactStore.local(tmp_path / "store"))
    facts = Facts("iris", "iris", {}, {}, "", {})
    made = tracking.stage(
        TrackingSettings(), facts, Data(ref, ref, None, "none"), {}, {}, {"1nn": ref}, ref, workspace
    )
    assert made.ready


@pytest.mark.slow
def test_results_describe_all_items_and_all_folds(picture_folder, tmp_path):
    run = run_locally(picture_folder, tmp_path / "home", report=True)
    store, products = run.workspace.store, run.products
    data = load_dataset(store, products.manifest, products.features)
    assert data.X.shape == (40, 384)
    assert (data.Y < 0).all(axis=1).sum() == 8
    correlation = unpack_matrix(store.read(products.ref("correlation")))
    assert correlation.row_names == ["blue", "green", "red"]
    np.testing.assert_allclose(np.diag(correlation.values), 1)
    embedding = unpack_embedding(store.read(products.refs["embedding"]["mlda"]))
    assert embedding.coordinates.shape == (40, 2)
    rows = load_scores(store, products.scores["mlda"])
    assert {row.fold for row in rows} == {0, 1, 2}
    assert {row.classifier for row in rows} == {"1nn", "10nn"}
    page = write_report(products.report, run.workspace)
    assert "<html" in page.read_text(encoding="utf-8")[:200]
    assert (page.parent / "correlation.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_after_one_image_changed_only_that_image_is_extracted(picture_folder, tmp_path, monkeypatch):
    run_locally(picture_folder, tmp_path / "home")
    spoil(picture_folder / "p07.png", 90)
    found = statuses(picture_folder, tmp_path / "home")
    assert found["ingest"].reasons[0] == "data: 1 changed (p07.png)"
    assert found["features"].reasons[0] == "1 of 40 items to extract"
    assert {label for label, one in found.items() if one.state == "stale"} == ALL - {"correlation"}
    assert found["report"].state == "missing"

    from embedding_core.features import extraction

    seen = []
    original = extraction.extract_file

    def extract_and_note(path, *rest):
        seen.append(path.name)
        return original(path, *rest)

    monkeypatch.setattr(extraction, "extract_file", extract_and_note)
    second = run_locally(picture_folder, tmp_path / "home")
    assert seen == ["p07.png"]
    assert second.computed == ALL - {"correlation"}
    X = load_features(second.workspace.store, second.products.features).X
    np.testing.assert_allclose(X[7].reshape(64, 3, 2)[:, :, 0], 90)
    assert not (X[6] == 90).any()


@pytest.mark.slow
def test_new_labels_leave_features_and_graph_fresh(picture_folder, tmp_path):
    run_locally(picture_folder, tmp_path / "home")
    file = picture_folder / "labels.csv"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("p04.png,", "p04.png,red"), encoding="utf-8")
    found = statuses(picture_folder, tmp_path / "home")
    assert found["ingest"].reasons[0] == "data: 1 relabeled (p04.png)"
    second = run_locally(picture_folder, tmp_path / "home")
    assert {"ingest", "correlation", "embedding[mlda]"} <= second.computed
    assert not {"features", "affinity"} & second.computed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "reason", "touched"),
    [
        (
            "affinity.n_neighbors=4",
            "parameter affinity.n_neighbors 10 → 4",
            {"affinity", "embedding[multilabel_dle]"},
        ),
        ("evaluation.seed=9", "parameter evaluation.seed 1 → 9", {"evaluation[mlda]", "evaluation[svm]"}),
        (
            "features.color_moments.grid=[4, 4]",
            "parameter features.color_moments.grid [8, 8] → [4, 4]",
            {"features", "embedding[mlda]"},
        ),
    ],
)
def test_a_changed_parameter_is_named_as_the_reason(picture_folder, tmp_path, override, reason, touched):
    run_locally(picture_folder, tmp_path / "home")
    found = statuses(picture_folder, tmp_path / "home", override)
    stale = [one for one in found.values() if one.state == "stale"]
    assert stale[0].reasons == [reason]
    second = run_locally(picture_folder, tmp_path / "home", override)
    assert touched <= second.computed
    assert "ingest" not in second.computed


@pytest.mark.slow
def test_a_recomputed_stage_with_the_same_result_cuts_the_chain(picture_folder, tmp_path):
    run_locally(picture_folder, tmp_path / "home")
    again = run_locally(picture_folder, tmp_path / "home", refresh="affinity")
    assert again.computed == {"affinity"}


@pytest.mark.slow
def test_renamed_added_and_removed_images(picture_folder, tmp_path):
    run_locally(picture_folder, tmp_path / "home")
    (picture_folder / "p01.png").rename(picture_folder / "p99.png")
    (picture_folder / "p02.png").unlink()
    spoil(picture_folder / "p98.png", 10)
    reason = statuses(picture_folder, tmp_path / "home")["ingest"].reasons[0]
    assert reason == "data: 1 added (p98.png), 1 removed (p02.png), 1 renamed (p01.png → p99.png)"
    assert statuses(picture_folder, tmp_path / "home")["features"].reasons[0] == "1 of 40 items to extract"


@pytest.mark.slow
def test_unreadable_images_are_listed_and_left_out(picture_folder, tmp_path):
    (picture_folder / "p03.png").write_bytes(b"no picture")
    run = run_locally(picture_folder, tmp_path / "home", report=True)
    data = load_dataset(run.workspace.store, run.products.manifest, run.products.features)
    assert list(data.errors) == ["p03.png"]
    assert len(data.ids) == 39
    assert "p03.png" in write_report(run.products.report, run.workspace).read_text(encoding="utf-8")
    with pytest.raises(SourceError, match=r"p03\.png"):
        run_locally(picture_folder, tmp_path / "home", "source.strict=true")


@pytest.mark.slow
def test_a_missing_portion_is_extracted_again(picture_folder, tmp_path):
    first = run_locally(picture_folder, tmp_path / "home")
    shutil.rmtree(tmp_path / "home" / "store" / "features_part")
    again = run_locally(picture_folder, tmp_path / "home")
    assert "features" in again.computed
    assert again.products.features == first.products.features


@pytest.mark.slow
def test_given_edges_are_the_graph(picture_folder, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text(
        "id_i,id_j,w\n" + "".join(f"p{i:02d}.png,p{i + 1:02d}.png,1\n" for i in range(39)), "utf-8"
    )
    run = run_locally(picture_folder, tmp_path / "home", f'source.edges="{edges}"')
    graph = load_graph(run.workspace.store, run.products.ref("affinity"))
    assert graph.nnz == 2 * 39
    with pytest.raises(ConfigError, match="edges"):
        run_locally(picture_folder, tmp_path / "home", "affinity.graph=given")


def test_unknown_method_is_refused_before_any_work(picture_folder, tmp_path):
    with pytest.raises(ValueError, match="mlda"):
        run_locally(picture_folder, tmp_path / "home", "embedding.method=mdla")
    assert not (tmp_path / "home" / "store").exists()


@pytest.mark.parametrize(
    ("source", "override", "message"),
    [
        ("gone.csv", "name=x", "there is no file or folder"),
        ("t.csv", "source.labels=kimd", "no column 'kimd' for source.labels.*'kind'"),
        ("t.csv", "features.extractors=mfcc", "mfcc reads sound"),
        ("pictures", "features.extractors=mfcc", "mfcc reads sound"),
    ],
)
def test_a_wrong_source_is_refused_before_an_engine_starts(
    picture_folder, tmp_path, monkeypatch, source, override, message
):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("x,kind\n1,a\n2,b\n")
    monkeypatch.setattr("flows.runner.prepare_engine", lambda *given: pytest.fail("the engine started"))
    config = local_config(tmp_path / "tables" / source, tmp_path / "home", "source.labels=kind", override)
    if source == "pictures":
        config = local_config(picture_folder, tmp_path / "home", override)
    with pytest.raises(LabelscapeError, match=message):
        Run(TrainingPlan(config)).execute()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine"])
def test_builtin_sets_run(name, tmp_path):
    run = run_locally(name, tmp_path / "home")
    means = [
        row.value
        for row in load_scores(run.workspace.store, run.products.scores["mlda"])
        if row.metric == "accuracy"
    ]
    assert np.mean(means) > 0.9


@pytest.mark.slow
def test_edges_by_position_count_unreadable_items(picture_folder, tmp_path):
    (picture_folder / "p02.png").write_bytes(b"no picture")
    edges = tmp_path / "edges.csv"
    edges.write_text("i,j,w\n0,1,1\n2,3,5\n3,4,7\n", encoding="utf-8")
    run = run_locally(picture_folder, tmp_path / "home", f'source.edges="{edges}"')
    data = load_dataset(run.workspace.store, run.products.manifest, run.products.features)
    graph = load_graph(run.workspace.store, run.products.ref("affinity")).tocoo()
    linked = {
        (data.ids[i], data.ids[j], w)
        for i, j, w in zip(graph.row, graph.col, graph.data, strict=True)
        if i < j
    }
    assert linked == {("p00.png", "p01.png", 1.0), ("p03.png", "p04.png", 7.0)}


@pytest.mark.slow
def test_an_image_that_changes_while_it_is_read_is_not_stored(picture_folder, tmp_path, monkeypatch):
    from embedding_core.features import extraction

    original = extraction._read_file
    other = (picture_folder / "p01.png").read_bytes()
    swapped = lambda path, digest: other if path.name == "p05.png" else original(path, digest)  # noqa: E731
    monkeypatch.setattr(extraction, "_read_file", swapped)
    with pytest.raises(LabelscapeError, match=r"p05\.png changed while"):
        run_locally(picture_folder, tmp_path / "home")
    monkeypatch.undo()
    run = run_locally(picture_folder, tmp_path / "home")
    X = load_features(run.workspace.store, run.products.features).X
    assert not np.array_equal(X[5], X[1])


@pytest.mark.slow
def test_a_transient_read_error_is_not_stored(picture_folder, tmp_path, monkeypatch):
    def refuse(path, flags):
        raise OSError(24, "Too many open files")

    known = {name: getattr(os, name) for name in ("O_RDONLY", "O_NONBLOCK", "fstat", "close")}
    monkeypatch.setattr("embedding_core.features.extraction.os", SimpleNamespace(open=refuse, **known))
    with pytest.raises(LabelscapeError, match="Too many open files"):
        run_locally(picture_folder, tmp_path / "home")
    monkeypatch.undo()
    run = run_locally(picture_folder, tmp_path / "home")
    assert not load_dataset(run.workspace.store, run.products.manifest, run.products.features).errors


@pytest.mark.slow
def test_a_portion_computed_differently_makes_the_features_stale(picture_folder, tmp_path, monkeypatch):
    first = run_locally(picture_folder, tmp_path / "home")
    store = first.workspace.store
    part = part_refs(store, first.products.features)[0]
    found = unpack_features(store.read(part))
    recipe = Recipe(**store.details(part)["recipe"])
    store.compute(recipe, lambda: pack_features(replace(found, X=found.X + 1)), force=True)
    assert statuses(picture_folder, tmp_path / "home")["features"].state == "stale"


@pytest.mark.slow
def test_registry_facts_of_a_method_are_part_of_its_key(picture_folder, tmp_path, monkeypatch):
    from embedding_core import registry

    run_locally(picture_folder, tmp_path / "home")
    changed = dict(registry.METHODS)
    changed["mlda"] = replace(changed["mlda"], own_scaling=True)
    changed["new"] = replace(changed["dle"], name="new")
    monkeypatch.setattr(registry, "METHODS", changed)
    found = statuses(picture_folder, tmp_path / "home")
    assert found["embedding[mlda]"].state == "stale"
    assert found["embedding[multilabel_dle]"].state == "fresh"


@pytest.mark.slow
def test_a_method_that_builds_its_own_graph_does_not_get_that_of_the_run(picture_folder, tmp_path):
    run_locally(picture_folder, tmp_path / "home", "embedding.params.multilabel_dle.n_neighbors=4")
    other = "affinity.n_neighbors=5"
    again = run_locally(
        picture_folder, tmp_path / "home", "embedding.params.multilabel_dle.n_neighbors=4", other
    )
    assert again.computed == set()
    assert "affinity" not in again.outcomes
    with pytest.raises(LabelscapeError, match="n_neighbors"):
        run_locally(picture_folder, tmp_path / "home", "embedding.params.multilabel_dle.n_neighbors=a")


@pytest.mark.slow
def test_a_report_is_written_again_if_its_folder_is_incomplete(picture_folder, tmp_path):
    run = run_locally(picture_folder, tmp_path / "home", "report.thumbnails=0", report=True)
    page = write_report(run.products.report, run.workspace)
    page.unlink()
    assert write_report(run.products.report, run.workspace).exists()
    assert not list(page.parent.parent.glob("*.tmp"))


class Notebook(Reporter):
    def __init__(self):
        super().__init__()
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def test_a_warning_that_several_stages_repeat_is_reported_once_per_run(tmp_path, recwarn):
    reporter = Notebook()
    workspace = Workspace(home=tmp_path, store=ArtifactStore.local(tmp_path / "store"), reporter=reporter)

    def produce():
        for fold in range(3):
            warnings.warn("the graph has 2 components; raise n_neighbors", stacklevel=1)
            warnings.warn(f"{7 + fold} items have no link", stacklevel=1)
        return pack_files({"a.txt": b""})

    for variant in ("mlda", "dle"):
        run_stage(Stage("embedding", (), {}, {}, produce, variant), workspace)
    assert reporter.lines == [
        "  warning: the graph has 2 components; raise n_neighbors",
        "  warning: 7 items have no link",
    ]
    assert not recwarn.list


@pytest.mark.parametrize(
    ("name", "params", "scale", "edges_given", "expected"),
    [
        ("multilabel_dle", {}, "none", False, True),
        ("multilabel_dle", {"n_neighbors": 5}, "none", False, False),
        ("mlda", {}, "none", True, False),
        ("lapsvm", {}, "none", False, False),
        ("lapsvm", {}, "zscore", False, True),
        ("lapsvm", {}, "none", True, True),
    ],
)
def test_a_method_gets_the_graph_only_if_it_fits(name, params, scale, edges_given, expected):
    assert takes_graph(name, params, Data(None, None, None, scale, edges_given)) == expected
