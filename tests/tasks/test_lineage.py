"""Lineage and repetition: from a result back to the bytes, and repeating a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.config import load_config, repeat_config
from flows.runner import Run, RunResult
from storage import credentials
from storage.artifacts.keys import ArtifactRef, Recipe
from storage.artifacts.run_log import LoggedRun, RunLog
from storage.artifacts.schemas import SCHEMA_VERSION, pack_files
from storage.artifacts.store import ArtifactStore
from storage.credentials import reveal
from tasks.maintenance.lineage import LineageGraph, flatten_lineage
from tasks.report.lineage_figure import lineage_content
from tasks.report.page import render_lineage
from tests.conftest import UNTRACKED, Answer, Command, write_pictures

pytestmark = pytest.mark.usefixtures("without_engine")
QUICK = (*UNTRACKED, "--set", "evaluation.folds=2", "--methods", "mlda,multilabel_dle")


def run(command: Command, *arguments: object) -> dict:
    done: Answer = command("run", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def digests(record: dict) -> dict[str, str]:
    return {stage["stage"]: stage["digest"] for stage in record["stages"]}


def walk_inputs(node: dict) -> list[dict]:
    return [node, *(below for one in node["inputs"] for below in walk_inputs(one))]


@pytest.mark.slow
def test_every_score_leads_back_to_the_bytes_of_the_source(command: Command, picture_folder: Path) -> None:
    made = run(command, picture_folder, *QUICK)
    found = json.loads(command("lineage", "--json").out)
    assert found["run"]["id"] == made["run"]
    roots = {node["label"]: node for node in found["results"]}
    assert set(roots) == {f"evaluation[{m}]" for m in ("mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm")}
    for node in roots.values():
        below = walk_inputs(node)
        assert {one["label"] for one in below if not one["inputs"]} == {"source"}
        assert {"features", "ingest"} <= {one["label"] for one in below}
    graph = {one["label"] for one in walk_inputs(roots["evaluation[multilabel_dle]"])}
    assert "affinity" in graph
    known = digests(made)
    shown = {one["label"]: one for one in walk_inputs(roots["evaluation[multilabel_dle]"])}
    for label in ("evaluation[multilabel_dle]", "affinity", "features"):
        assert shown[label]["digest"] == known[label]
        assert shown[label]["code"]
        assert shown[label]["versions"]["numpy"]


@pytest.mark.slow
def test_the_tree_names_each_artifact_once(command: Command, picture_folder: Path) -> None:
    made = run(command, picture_folder, *QUICK)
    text = command("lineage", made["run"][:6]).out
    assert f"labelscape run --as {made['run']}" in text
    features = digests(made)["features"][:12]
    assert text.count(f"features  {features}") == text.count(f"features  {features}  (see above)") + 1
    assert "n_neighbors=10" in text
    assert "method.facts" not in text


@pytest.mark.parametrize(
    "given",
    [("--until", "correlation"), pytest.param(("--set", "tracking.enabled=true"), marks=pytest.mark.slow)],
)
def test_tracing_a_run_does_not_read_unrelated_artifacts(
    command: Command, picture_folder: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    def refuse(store: ArtifactStore) -> Iterator[tuple[str, object]]:
        raise AssertionError("every manifest of the store was read")

    monkeypatch.setattr(ArtifactStore, "checks", refuse)
    made = run(command, picture_folder, *QUICK, *given)
    assert made["tracking"]["problem"] is None
    assert "bytes of the source" in command("lineage", made["run"]).out


def test_an_artifact_is_traced_by_its_key(command: Command, picture_folder: Path) -> None:
    made = run(command, picture_folder, *QUICK, "--until", "affinity")
    key = next(stage["key"] for stage in made["stages"] if stage["stage"] == "affinity")
    assert command("lineage", key[:10]).out.startswith(f"affinity  {digests(made)['affinity'][:12]}")
    unknown = command("lineage", "zzzz")
    assert unknown.code == 2
    assert "no run or artifact begins with 'zzzz'" in unknown.err


class TestEqualContent:
    """Two methods with equal scores, whose trials are as long as the full evaluation."""

    @pytest.fixture
    def stages(self, tmp_path: Path) -> dict[str, ArtifactRef]:
        store = ArtifactStore.local(tmp_path)
        made: dict[str, ArtifactRef] = {}

        def keep(label: str, text: str, **inputs: str) -> None:
            stage, _, variant = label.removesuffix("]").partition("[")
            parents = {role: made[name] for role, name in inputs.items()}
            digests = {role: parent.digest for role, parent in parents.items()}
            recipe = Recipe(stage, variant, {}, {}, digests, SCHEMA_VERSION)
            files = {"a.txt": text.encode()}
            made[label] = store.compute(recipe, lambda: pack_files(files), parents=parents).ref

        for name in ("a", "b"):
            keep(f"trial[{name}]", "scores")
        for name in ("b", "a"):  # the order of creation must not matter
            keep(f"candidate[{name}]", "scores", trial=f"trial[{name}]")
        keep("choice", "a", a="candidate[a]", b="candidate[b]")
        for name in ("a", "b"):
            keep(f"model[{name}]", f"model {name}", scores=f"candidate[{name}]")
        assert len({made[name].digest for name in made if "choice" not in name and "model" not in name}) == 1
        return made

    def test_the_manifest_records_key_and_digest_of_each_parent(
        self, tmp_path: Path, stages: dict[str, ArtifactRef]
    ) -> None:
        known = ArtifactStore.local(tmp_path).details(stages["choice"])
        assert known["parents"] == {
            name: {"stage": "candidate", "key": ref.key, "digest": ref.digest}
            for name in ("a", "b")
            for ref in [stages[f"candidate[{name}]"]]
        }
        assert known["recipe"]["inputs"] == {name: one["digest"] for name, one in known["parents"].items()}

    def test_parents_are_not_part_of_the_key(self, tmp_path: Path, stages: dict[str, ArtifactRef]) -> None:
        """The same digest under another key gives the same artifact; its manifest keeps the first parent."""
        store = ArtifactStore.local(tmp_path)
        recipe = Recipe(**store.details(stages["model[a]"])["recipe"])
        again = store.compute(recipe, lambda: 1 / 0, parents={"scores": stages["candidate[b]"]})
        assert again.cached
        assert again.ref == stages["model[a]"]
        assert store.details(again.ref)["parents"]["scores"]["key"] == stages["candidate[a]"].key

    def test_a_parent_that_was_replaced_is_gone(self, tmp_path: Path, stages: dict[str, ArtifactRef]) -> None:
        store = ArtifactStore.local(tmp_path)
        recipe = Recipe(**store.details(stages["candidate[a]"])["recipe"])
        files = {"a.txt": b"other scores"}
        assert store.compute(recipe, lambda: pack_files(files), force=True).ref != stages["candidate[a]"]
        (scores,) = LineageGraph(store).of_artifact(stages["model[a]"].key).inputs
        assert (scores.gone, scores.digest) == (True, stages["candidate[a]"].digest)

    def test_a_missing_parent_is_shown_as_the_equal_artifact_of_the_run(
        self, tmp_path: Path, stages: dict[str, ArtifactRef]
    ) -> None:
        store = ArtifactStore.local(tmp_path)
        assert store.discard("candidate", stages["candidate[a]"].key)
        graph = LineageGraph(store, [stages["candidate[b]"], stages["model[a]"]])
        (scores,) = graph.of_results({"model[a]": stages["model[a]"]})[0].inputs
        assert (scores.label, scores.gone) == ("candidate[b]", False)

    @pytest.mark.parametrize("known", [True, False])
    def test_each_artifact_leads_to_its_own_inputs(
        self, tmp_path: Path, stages: dict[str, ArtifactRef], known: bool
    ) -> None:
        graph = LineageGraph(ArtifactStore.local(tmp_path), stages.values() if known else ())
        of = {label: graph.of_artifact(ref.key) for label, ref in stages.items()}
        assert [node.label for node in of.values()] == list(of)
        for name in ("a", "b"):
            (trial,) = of[f"candidate[{name}]"].inputs
            assert (trial.label, trial.inputs) == (f"trial[{name}]", ())
            assert [one.label for one in of[f"model[{name}]"].inputs] == [f"candidate[{name}]"]
        assert [one.label for one in of["choice"].inputs] == ["candidate[a]", "candidate[b]"]
        assert {one.label for one in flatten_lineage(of.values())} == set(stages)

    def test_the_ends_of_a_run(self, tmp_path: Path, stages: dict[str, ArtifactRef]) -> None:
        graph = LineageGraph(ArtifactStore.local(tmp_path), stages.values())
        ends = graph.of_run(LoggedRun("a", "a", "a", {}, stages))
        assert [one.label for one in ends] == ["choice", "model[a]", "model[b]"]

    def test_a_missing_artifact_ends_the_trace(self, tmp_path: Path, stages: dict[str, ArtifactRef]) -> None:
        store = ArtifactStore.local(tmp_path)
        for name in ("trial[a]", "trial[b]", "candidate[b]"):
            assert store.discard(stages[name].stage, stages[name].key)
        root = LineageGraph(store).of_artifact(stages["candidate[a]"].key)
        assert [one.gone for one in root.inputs] == [True]
        assert [one.gone for one in LineageGraph(store).of_artifact(stages["model[a]"].key).inputs] == [False]
        (member, _) = flatten_lineage([root])
        drawing = render_lineage([member])
        assert drawing.count('class="gone"') == 1
        assert drawing.count('class="outside"') == 0
        assert "no longer in the store" in drawing
        assert lineage_content([member])["gone"] == "no longer in the store"


@pytest.mark.slow
def test_a_run_is_repeated_with_its_own_configuration(command: Command, picture_folder: Path) -> None:
    first = run(command, picture_folder, *QUICK, "--set", "affinity.n_neighbors=4")
    run(command, picture_folder, *QUICK)
    again = run(command, "--as", first["run"])
    assert again["run"] == first["run"]
    assert again["repeats"] == {"run": first["run"], "differ": [], "not_run": [], "more": []}
    assert digests(again) == digests(first)
    assert (
        f"run        {first['run']}, same results as {first['run']}"
        in command("run", "--as", first["run"]).out
    )


def test_a_repeated_run_reports_different_results(command: Command, picture_folder: Path) -> None:
    first = run(command, picture_folder, *QUICK, "--until", "correlation")
    file = picture_folder / "labels.csv"
    file.write_text(file.read_text(encoding="utf-8").replace("p04.png,", "p04.png,red"), encoding="utf-8")
    again = run(command, "--as", first["run"], "--until", "correlation")
    assert again["repeats"]["differ"] == ["ingest", "correlation"]


def test_a_run_that_ended_early_ends_there_when_it_is_repeated(
    command: Command, picture_folder: Path
) -> None:
    first = run(command, picture_folder, *QUICK, "--until", "affinity")
    again = run(command, "--as", first["run"])
    assert set(digests(again)) == {"ingest", "features", "affinity"}
    assert again["repeats"] == {"run": first["run"], "differ": [], "not_run": [], "more": []}
    assert again["run"] == first["run"]


@pytest.mark.slow
def test_stages_of_only_one_run_are_not_reported_as_different(command: Command, picture_folder: Path) -> None:
    first = run(command, picture_folder, *QUICK, "--until", "affinity")
    less = run(command, "--as", first["run"], "--until", "features")
    assert less["repeats"] == {"run": first["run"], "differ": [], "not_run": ["affinity"], "more": []}
    more = run(command, "--as", first["run"], "--until", "correlation")
    assert more["repeats"] == {"run": first["run"], "differ": [], "not_run": [], "more": ["correlation"]}
    text = command("run", "--as", first["run"], "--until", "features").out
    assert f", same results as {first['run']}; not run: affinity\n" in text


def test_a_source_named_by_a_setting_is_found_again_from_another_folder(
    command: Command, picture_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = ("--set", f"source.path={picture_folder.name}", "--home", tmp_path / "home")
    first = run(command, *given, *QUICK, "--until", "ingest")
    elsewhere = tmp_path / "elsewhere"
    write_pictures(elsewhere / picture_folder.name, 10)
    monkeypatch.chdir(elsewhere)
    again = run(command, "--as", first["run"], "--home", tmp_path / "home")
    assert again["repeats"]["differ"] == []


def test_from_takes_earlier_stages_unchanged_from_the_last_run(
    command: Command, picture_folder: Path
) -> None:
    first = run(command, picture_folder, *QUICK, "--until", "correlation")
    (picture_folder / "p07.png").write_bytes((picture_folder / "p08.png").read_bytes())
    again = run(command, picture_folder, *QUICK, "--from", "affinity", "--until", "correlation")
    states = {stage["stage"]: stage["state"] for stage in again["stages"]}
    assert states == {"ingest": "fresh", "features": "fresh", "affinity": "computed", "correlation": "fresh"}
    assert digests(again) == digests(first)


@pytest.mark.slow
def test_an_identical_result_leaves_later_stages_fresh(command: Command, picture_folder: Path) -> None:
    run(command, picture_folder, *QUICK)
    again = run(command, picture_folder, *QUICK, "--from", "affinity")
    assert [stage["stage"] for stage in again["stages"] if stage["state"] == "computed"] == ["affinity"]


def test_an_end_before_the_beginning_is_refused(command: Command, picture_folder: Path) -> None:
    done = command("run", picture_folder, *QUICK, "--from", "evaluation", "--until", "features")
    assert done.code == 2
    assert "features comes first; nothing would run" in done.err


@pytest.mark.parametrize("more", [("wine",), ("--set", "evaluation.folds=3"), ("--methods", "mlda")])
def test_options_that_an_earlier_run_determines_are_refused(command: Command, more: tuple[str, ...]) -> None:
    made = run(command, "iris", *UNTRACKED, "--until", "ingest")
    refused = command("run", *more, "--as", made["run"])
    assert refused.code == 2
    assert "--as takes source and settings from the earlier run" in refused.err


def test_a_stored_configuration_that_is_no_longer_valid_is_a_user_error(
    command: Command, tmp_path: Path
) -> None:
    log = RunLog(ArtifactStore.local(tmp_path / ".labelscape" / "store"))
    kept = log.add(LoggedRun("old", "old", "iris", {"gone": {"x": 1}}, {}, problem="nobody answered"))
    again = command("run", "--as", kept.id)
    assert again.code == 2
    assert f"run {kept.id} is not valid:\n  gone: unknown key" in again.err
    later = command("sync", "--json")
    assert later.code == 2
    assert "gone: unknown key" in json.loads(later.out)["runs"][0]["problem"]


def test_a_password_is_taken_from_the_present_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_entered", {})
    known = load_config(None, tracking={"uri": "http://tracker:5000"}).model_dump(mode="json")
    earlier = LoggedRun("a", "a", "iris", known, {})
    for uri, used in [
        ("http://me:secret@another:5000", "http://tracker:5000"),
        ("http://me:secret@tracker:5000", "http://me:secret@tracker:5000"),
    ]:
        config = repeat_config(earlier, load_config(None, tracking={"uri": uri}))
        assert config.tracking.uri == "http://tracker:5000"
        assert reveal(config.tracking.uri) == used


def test_an_earlier_run_may_be_repeated_reading_every_file(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(command, "iris", *UNTRACKED, "--until", "ingest")
    given: list[bool] = []

    def execute(run: Run[Any], verbose: bool) -> RunResult[Any]:
        given.append(run.plan.config.source.paranoid)
        return run.run_stages()

    monkeypatch.setattr(Run, "execute", execute)
    for more in ((), ("--paranoid",)):
        again = run(command, "--as", made["run"], "--until", "ingest", *more)
        assert again["run"] == made["run"]
    assert given == [False, True]


def test_a_damaged_run_record_is_named_and_quarantined(command: Command, picture_folder: Path) -> None:
    arguments = (picture_folder, *UNTRACKED, "--until", "ingest")
    assert command("run", *arguments).code == 0
    (record,) = Path(".labelscape/store/runs").glob("*.json")
    intact = record.read_bytes()
    record.write_bytes(intact[:-40])
    for words in (("lineage",), ("lineage",), ("lineage", record.stem), ("run", "--as", record.stem[:6])):
        done = command(*words)
        assert done.code == 2
        assert f"damaged: {record.absolute()}" in done.err
        assert f"labelscape run {picture_folder}" in done.err
        assert "no runs yet" not in done.err
    assert not record.exists()
    assert f"damaged: {record.absolute()}" in command("store", "ls", "--runs").err
    assert command("run", *arguments).code == 0
    done = command("lineage")
    assert done.code == 0
    assert done.err == ""


def test_an_intact_run_is_shown_beside_a_damaged_one(command: Command, picture_folder: Path) -> None:
    for until in ("ingest", "features"):
        assert command("run", picture_folder, *UNTRACKED, "--until", until).code == 0
    first = next(iter(Path(".labelscape/store/runs").glob("*.json")))
    first.write_bytes(b"{}")
    done = command("lineage")
    assert done.code == 0
    assert f"damaged: {first.absolute()}" in done.err
    assert "run       " in done.out
