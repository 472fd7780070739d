"""Every setting that changes a result makes the stages stale that use it, and no other ones.

The table below has one entry per field of the configuration. A new setting needs an entry here: the stages
that use it, or none with the reason.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from embedding_core.registry.candidates import Candidate
from flows.config import RunConfig, load_config
from flows.pipeline import walk, walk_data
from flows.runner import open_workspace
from storage.artifacts.keys import ArtifactRef
from tasks.budget import Budget
from tasks.reporter import Reporter
from tasks.selection.candidates import SelectionContext, candidate_stage, trial_stage
from tasks.stage import Stage, run_stage
from tests.conftest import write_pictures
from tests.tasks.test_feature_extractors import OTHER_VALUES

FITTED_ON_FEATURES = {"affinity", "embedding", "model", "evaluation", "trial", "candidate"}

# Setting: (value that differs from the default, stages that use it).
USED: dict[str, tuple[str, set[str]]] = {
    "name": ("another", {"report", "map"}),
    "source.path": ("more", {"ingest", "report", "map"}),
    "source.kind": ("images", {"ingest"}),
    "source.labels": ("other.csv", {"ingest"}),
    "source.id": ("name", {"ingest"}),
    "source.features": ("x", {"ingest"}),
    "source.split": ("part", {"ingest"}),
    "source.ignore": ("x", {"ingest"}),
    "source.categorical": ("onehot", {"ingest"}),
    "source.edges": ("edges.csv", {"affinity"}),
    "source.label_separator": (";", {"ingest"}),
    "source.strict": ("true", {"ingest", "features"}),
    "source.min_label_count": ("2", {"ingest"}),
    "source.text": ("caption", {"ingest"}),
    "source.every_seconds": ("5", {"ingest"}),
    "source.drop_labels": ("['red']", {"ingest"}),
    "features.fill": ("mean", {"features"}),
    "features.extractors": ("efficientnet_lite0", {"features"}),
    "features.color_moments.grid": ("[2, 4]", {"features"}),
    "features.color_moments.moments": ("['mean']", {"features"}),
    "features.color_moments.color_space": ("hsv", {"features"}),
    "features.scale": ("unit", FITTED_ON_FEATURES),
    "affinity.graph": ("gaussian", {"affinity"}),
    "affinity.n_neighbors": ("3", {"affinity"}),
    "affinity.weights": ("binary", {"affinity"}),
    "affinity.sigma": ("2.5", {"affinity"}),
    "affinity.exact_items": ("30", {"affinity"}),
    "affinity.recall": ("0.9", {"affinity"}),
    "embedding.methods": ("['lpp']", {"embedding", "evaluation", "report", "map"}),
    "embedding.n_components": ("1", {"embedding", "evaluation"}),
    "embedding.params": ("{mlda = {n_components = 1}}", {"embedding", "evaluation"}),
    "evaluation.folds": ("4", {"evaluation", "trial", "candidate"}),
    "evaluation.seed": ("7", {"evaluation", "trial", "candidate"}),
    "evaluation.n_neighbors": ("[3]", {"evaluation"}),
    "evaluation.baselines": ("['mlls', '1nn']", {"evaluation", "model", "report", "map"}),
    "evaluation.test_items": ("200", {"evaluation"}),
    "evaluation.sort_by": ("micro_f1", {"report", "map"}),
    "annotation.n_neighbors": ("3", {"embedding"}),
    "annotation.weights": ("uniform", {"embedding"}),
    "report.thumbnails": ("3", {"report"}),
    "map.points": ("200", {"map"}),
    "map.pictures": ("3", {"map"}),
    "tracking.uri": ("sqlite:////tmp/other.db", {"tracking"}),
    "tracking.experiment": ("another", {"tracking"}),
}
# Settings that change no result of any stage.
UNUSED = {
    "home": "where results are kept",
    "executor": "how jobs run; their results are the same bytes",
    "store.uri": "where results are kept",
    "store.grace_minutes": "what gc keeps",
    "source.paranoid": "how changes are noticed",
    "features.tfidf.ngrams": "used for texts, see test_media_features",
    "features.tfidf.hash_bits": "used for texts, see test_media_features",
    "features.scales": "test_feature_blocks: it names extractors",
    "features.weights": "test_feature_blocks: it names extractors",
    **dict.fromkeys(
        ["features.efficientnet_lite0.fit"]
        + [
            f"features.onnx.{name}"
            for name in ("path", "size", "mean", "std", "fit", "interpolation", "layout", "output", "pool")
        ],
        "used if this extractor is chosen, see test_network_features",
    ),
    **dict.fromkeys(
        [f"features.{extractor}.{name}" for extractor, values in OTHER_VALUES.items() for name in values],
        "used if this extractor is chosen, see test_feature_extractors",
    ),
    "evaluation.exact_items": "which baselines run; each has its own stage, see test_scaling_baselines",
    "affinity.memory_budget_gb": "when a dense graph is refused",
    "auto.budget": "which candidates are scored in time; each has its own stage",
    "auto.closed": "used by methods that see all rows, see test_selection_honesty",
    "auto.rare_labels": "used if there are such labels, see test_selection_honesty",
    "auto.candidates": "which candidates are scored; each has its own stage",
    "tracking.enabled": "whether results are tracked",
    **dict.fromkeys(
        [f"schedule.{name}" for name in ("answers", "database", "keep_days")]
        + [f"schedule.{name}" for name in ("overlap", "queue", "refresh", "tolerance")]
        + [f"notify.{name}" for name in ("about", "block", "command", "webhook")],
        "when runs start, what a refresh does besides, and who is notified",
    ),
}


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted name of every setting."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_has_an_entry() -> None:
    assert sorted([*USED, *UNUSED]) == sorted(leaves(RunConfig))


class Keys:
    """Keys of every stage of `run` and of one candidate of `auto`; data stages run, the others do not."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        given = ["source.path=pictures", "embedding.methods=['mlda']", "evaluation.baselines=['mlls']"]
        given += ["auto.candidates=['harmonic_functions']"]  # uses the graph of the run
        self.config = load_config(None, [*given, *overrides], home=str(folder / "home"))
        self.workspace = open_workspace(self.config, Reporter())
        self.keys: dict[str, str] = {}
        self.refs: dict[str, ArtifactRef] = {}


def collect(keys: Keys, refs: dict[str, ArtifactRef] | None = None) -> Keys:
    """Visit every stage; with `refs`, each stage has the inputs that it had in an earlier visit."""

    def execute(stage: Stage) -> ArtifactRef | None:
        keys.keys[stage.label] = stage.recipe().key
        if refs is not None:
            ref = refs.get(stage.label) or pretend(stage)
        elif stage.name in ("ingest", "features", "affinity"):
            ref = run_stage(stage, keys.workspace).ref
        else:
            ref = pretend(stage)
        keys.refs[stage.label] = ref
        return ref

    walk(keys.config, keys.workspace, execute, {})
    data = walk_data(keys.config, keys.workspace, execute).data
    context = SelectionContext(keys.config.evaluation, data, keys.workspace, Budget(60))
    trial = execute(trial_stage(Candidate("mlls", "mlls"), context))
    execute(candidate_stage(Candidate("mlls", "mlls"), context, trial))
    return keys


def pretend(stage: Stage) -> ArtifactRef:
    """Reference to an artifact that does not exist."""
    return ArtifactRef(stage.name, "0" * 64, "1" * 64, "files", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stale")
    write_pictures(place / "pictures", 12)
    write_pictures(place / "more", 13)
    labels = (place / "pictures" / "labels.csv").read_text()
    (place / "pictures" / "other.csv").write_text(labels.replace("green", "blue"))
    (place / "edges.csv").write_text("i,j,w\np00.png,p01.png,1.0\n")
    return place


@pytest.fixture(scope="module")
def before(folder: Path) -> Keys:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return collect(Keys(folder))


@pytest.mark.parametrize("setting", USED)
def test_a_changed_setting_makes_the_stages_stale_that_use_it(
    setting: str, folder: Path, before: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    value, stages = USED[setting]
    after = collect(Keys(folder, f"{setting}={value}"), before.refs)
    changed = {label for label, key in after.keys.items() if before.keys.get(label) != key}
    # The record of a tracked run contains the whole configuration.
    ignored = set() if setting.startswith("tracking.") else {"tracking"}
    assert {label.partition("[")[0] for label in changed} - ignored == stages


@pytest.mark.parametrize("setting", ["executor=serial", "affinity.memory_budget_gb=1.0", "auto.budget=5m"])
def test_a_setting_without_effect_leaves_every_stage_fresh(
    setting: str, folder: Path, before: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    after = collect(Keys(folder, setting), before.refs)
    assert {label for label, key in after.keys.items() if before.keys[label] != key} <= {"tracking"}
