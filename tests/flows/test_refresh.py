"""Refresh without Prefect: unchanged, new items, shuffled labels, a champion that is protected."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows import selection
from flows.config import RunConfig
from flows.notifications import Notice
from flows.refresh import DROP_TAG, Refresh, look
from flows.refresh_result import RefreshResult
from flows.runner import Plan, Run, RunResult
from flows.selection import SelectionPlan
from flows.session import Session
from storage.errors import StoreError
from storage.tracking.registry import CHAMPION, ModelRegistry, model_name
from tasks.reporter import Reporter
from tasks.selection.choice import Champion
from tasks.stages.tracking import make_tracker
from tests.conftest import local_config

SETTINGS = (
    "embedding.method=mlda",
    "evaluation.baselines=['1nn']",
    "evaluation.folds=3",
    "auto.candidates=['1nn','svm']",
    "executor=serial",
)


def write_table(file: Path, labels: list[str], n: int = 60) -> None:
    """Two features of which the first decides the label; items beyond the labels have none."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    X[:, 0] += np.where(np.arange(n) % 2, 3, -3)
    given = [*labels, *[""] * (n - len(labels))]
    rows = [f"i{row},{a:.4f},{b:.4f},{name}" for row, ((a, b), name) in enumerate(zip(X, given, strict=True))]
    file.write_text("\n".join(["id,f0,f1,class", *rows]) + "\n")


def right(count: int) -> list[str]:
    return ["odd" if row % 2 else "even" for row in range(count)]


class Refreshes:
    """Refreshes of one collection in this process; `plans` are the kinds of runs that were executed."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.plans: list[str] = []

    def execute(self, plan: Plan[Any]) -> RunResult[Any]:
        self.plans.append(plan.kind)
        return Run(plan, session=Session(reporter=Reporter())).run_stages()

    def __call__(self, **options: Any) -> RefreshResult:
        self.plans.clear()
        return Refresh(self.config, self.execute).run(**options)

    def champion(self) -> Any:
        tracker = make_tracker(None, Path(self.config.home or ""))
        return ModelRegistry(tracker).find(model_name("table"), CHAMPION)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    write_table(file, right(50))
    return file


@pytest.fixture
def refreshes(table: Path, tmp_path: Path) -> Refreshes:
    config = local_config(table, tmp_path / "home", *SETTINGS, "tracking.enabled=true")
    return Refreshes(config)


@pytest.mark.slow
def test_the_life_of_a_collection(refreshes: Refreshes, table: Path) -> None:
    first = refreshes()
    assert refreshes.plans == ["run", "auto", "annotate"]
    assert first.causes == ("the first refresh of this collection",)
    assert first.new_champion
    assert [notice.about for notice in first.notices("table")] == ["champion"]
    assert first.annotated == 10
    assert {file.suffix for file in first.files} == {".parquet", ".csv", ".jsonl"}
    assert first.files[0].parent.parent == Path(refreshes.config.home or "")
    before = refreshes.champion()

    again = refreshes()
    assert (again.cached, refreshes.plans) == (True, [])
    assert again.line == "table: unchanged since the last refresh"
    forced = refreshes(force=True)
    assert (forced.cached, forced.causes) == (False, ("nothing",))

    write_table(table, right(52))
    grown = refreshes()
    assert refreshes.plans == ["run", "auto", "annotate"]
    assert grown.causes == ("items: 2 relabeled (i50, i51)",)
    assert grown.annotated == 8
    assert {one.kind for one in grown.moves} == {"run", "auto"}
    assert all(one.amount("macro_f1") is not None for one in grown.moves)
    assert (grown.drop, grown.new_champion) == ("", False)
    fitted = refreshes.champion()
    assert fitted.version != before.version, "the champion is refitted on the new labels"

    rng = np.random.default_rng(1)
    write_table(table, [str(name) for name in rng.permutation(right(52))])
    fallen = refreshes()
    assert fallen.drop.startswith("macro F1 went from ")
    assert ", the champion's score, to 0." in fallen.drop
    assert fallen.causes[0].startswith("items: ")
    assert "relabeled" in fallen.causes[0]
    assert [notice.about for notice in fallen.notices("table")] == ["drop"]
    assert fallen.champion == "1NN, input as given stays champion and is not refitted"
    assert refreshes.champion() == fitted, "neither replaced nor refitted"
    assert fallen.annotated == 8, "by the champion"
    tracker = make_tracker(None, Path(refreshes.config.home or ""))
    with tracker.connected() as client:
        from flows.stores import open_store
        from storage.artifacts.run_log import RunLog

        tracked = RunLog(open_store(refreshes.config)).find(fallen.runs["auto"]).tracked
        assert tracked
        assert client.get_run(tracked["run_id"]).data.tags[DROP_TAG] == fallen.drop
    assert refreshes().cached, "a drop is reported once"

    write_table(table, right(52))
    restored = refreshes()
    assert restored.drop == ""
    assert refreshes.champion().tags == fitted.tags


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [None, 0.02, 1.0])
def test_after_a_drop_a_champion_that_lost_is_not_refitted(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tolerance: float | None
) -> None:
    config = local_config(table, tmp_path / "home", *SETTINGS)
    run = Run(SelectionPlan(config), session=Session(reporter=Reporter()))
    first = run.run_stages().products.choice
    (loser,) = (one for one in first.scored if one is not first.winner)
    champion = Champion(loser.candidate, {"labels": "other"}, "1", "x", metric="macro_f1", values=(1.5,) * 3)
    monkeypatch.setattr(selection, "_present_champion", lambda *_: champion)
    again = Run(SelectionPlan(config, tolerance=tolerance), session=Session(reporter=Reporter()))
    found = again.run_stages().products
    dropped = tolerance == 0.02
    assert bool(found.drop) == dropped
    if dropped:
        assert found.verdict.title == "challenger"
        assert set(found.models) == {first.winner.name}
    elif found.verdict.title == "challenger":
        assert set(found.models) == {first.winner.name, loser.name}


@pytest.mark.slow
def test_a_refresh_that_ended_early_is_repeated(
    refreshes: Refreshes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(plan: Plan[Any]) -> RunResult[Any]:
        if plan.kind == "auto":
            raise KeyboardInterrupt
        return refreshes.execute(plan)

    with pytest.raises(KeyboardInterrupt):
        Refresh(refreshes.config, fail).run()
    result = refreshes()
    assert not result.cached
    assert refreshes.plans == ["run", "auto", "annotate"]


@pytest.mark.slow
def test_only_the_chosen_steps_run(refreshes: Refreshes, table: Path) -> None:
    schedule = refreshes.config.schedule.model_copy(update={"refresh": ("run",)})
    tracking = refreshes.config.tracking.model_copy(update={"enabled": False})
    refreshes.config = refreshes.config.model_copy(update={"schedule": schedule, "tracking": tracking})
    assert refreshes().champion == ""
    assert refreshes.plans == ["run"]
    assert refreshes().cached
    write_table(table, [str(name) for name in np.random.default_rng(1).permutation(right(50))])
    assert "macro F1 went from" in refreshes().drop


@pytest.mark.slow
def test_methods_without_a_graph_are_recognized_as_unchanged(refreshes: Refreshes) -> None:
    config = refreshes.config
    refreshes.config = config.model_copy(
        update={
            "schedule": config.schedule.model_copy(update={"refresh": ("run",)}),
            "tracking": config.tracking.model_copy(update={"enabled": False}),
            "embedding": config.embedding.model_copy(update={"method": "pca"}),
        }
    )
    assert "affinity" not in "".join(refreshes().causes)
    assert look(refreshes.config).stale == ()
    assert refreshes().cached


@pytest.mark.slow
def test_other_settings_have_their_own_memory(refreshes: Refreshes) -> None:
    base = refreshes.config.model_copy(
        update={
            "schedule": refreshes.config.schedule.model_copy(update={"refresh": ("run",)}),
            "tracking": refreshes.config.tracking.model_copy(update={"enabled": False}),
        }
    )
    other = base.model_copy(update={"evaluation": base.evaluation.model_copy(update={"folds": 4})})
    first, second = Refreshes(base), Refreshes(other)
    first()
    assert second().causes == ("evaluation.folds: 3 → 4",)
    assert first().cached
    assert second().cached


@pytest.mark.slow
def test_a_new_champion_is_reported_before_what_may_still_fail(refreshes: Refreshes) -> None:
    notices: list[Notice] = []

    def fail(plan: Plan[Any]) -> RunResult[Any]:
        if plan.kind == "annotate":
            raise StoreError("the disk is full")
        return refreshes.execute(plan)

    with pytest.raises(StoreError):
        Refresh(refreshes.config, fail, notices.append).run()
    assert [(one.about, one.collection) for one in notices] == [("champion", "table.csv")]


def only_run(config: RunConfig) -> RunConfig:
    return config.model_copy(
        update={
            "schedule": config.schedule.model_copy(update={"refresh": ("run",)}),
            "tracking": config.tracking.model_copy(update={"enabled": False}),
        }
    )


@pytest.mark.slow
def test_a_refresh_that_ended_meanwhile_is_not_forgotten(refreshes: Refreshes) -> None:
    base = only_run(refreshes.config)
    other = base.model_copy(update={"evaluation": base.evaluation.model_copy(update={"folds": 4})})
    first, second = Refreshes(base), Refreshes(other)

    def execute(plan: Plan[Any]) -> RunResult[Any]:
        result = first.execute(plan)
        second()
        return result

    Refresh(base, execute).run()
    assert first().cached
    assert second().cached


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["another state", "no source"])
def test_a_source_that_changes_during_a_refresh_is_refreshed_again(
    refreshes: Refreshes, table: Path, ending: str
) -> None:
    first = Refreshes(only_run(refreshes.config))
    first()
    early = table.read_bytes()
    write_table(table, right(52))

    def execute(plan: Plan[Any]) -> RunResult[Any]:
        result = first.execute(plan)
        if ending == "no source":
            table.unlink()
        else:
            table.write_bytes(early)
        return result

    Refresh(first.config, execute).run()
    table.write_bytes(early)
    assert not first().cached, "its scores are those of the state in between"
    assert first().cached


@pytest.mark.slow
def test_new_items_are_annotated_without_a_run_before(refreshes: Refreshes, table: Path) -> None:
    write_table(table, right(50), n=50)
    refreshes()
    schedule = refreshes.config.schedule.model_copy(update={"refresh": ("annotate",)})
    refreshes.config = refreshes.config.model_copy(update={"schedule": schedule})
    done = refreshes()
    assert (done.annotated, done.notes) == (0, ())
    assert refreshes().cached
    write_table(table, right(50), n=60)
    assert refreshes().annotated == 10
    assert refreshes().cached


def test_the_summary_is_plain_data(refreshes: Refreshes) -> None:
    from dataclasses import asdict

    assert json.dumps(asdict(RefreshResult("photos", cached=True)))
