"""Running again after a change: what the manifest records, `status` predicts and a run reports."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from flows.stale_reasons import explain
from storage.artifacts.run_log import RunLog
from storage.artifacts.store import ArtifactStore
from storage.sources.image_files import stamp_files
from tasks.maintenance.lineage import LineageGraph, flatten_lineage
from tasks.report.page import render_lineage
from tests.conftest import UNTRACKED, Command

pytestmark = pytest.mark.usefixtures("without_engine")
SHORT = (*UNTRACKED, "--set", "evaluation.folds=2", "--methods", "multilabel_dle", "--until", "correlation")


def run(command: Command, *arguments: object) -> dict[str, Any]:
    done = command("run", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def status(command: Command, *arguments: object) -> dict[str, dict[str, Any]]:
    return {one["label"]: one for one in json.loads(command("status", *arguments, "--json").out)}


def disturb(folder: Path) -> None:
    """Change, add, remove and rename one image each, and give one other labels."""
    Image.new("RGB", (24, 32), "red").save(folder / "p00.png")
    Image.new("RGB", (24, 32), "blue").save(folder / "p98.png")
    (folder / "p01.png").unlink()
    (folder / "p02.png").rename(folder / "p99.png")
    labels = folder / "labels.csv"
    labels.write_text(labels.read_text(encoding="utf-8").replace("p04.png,", "p04.png,red"), encoding="utf-8")


CHANGES = {
    "counts": {"added": 1, "changed": 1, "removed": 1, "renamed": 1, "relabeled": 1},
    "added": ["p98.png"],
    "changed": ["p00.png"],
    "removed": ["p01.png"],
    "renamed": [["p02.png", "p99.png"]],
    "relabeled": ["p04.png"],
}


class TestChangesOfItems:
    @pytest.mark.slow
    def test_the_manifest_records_the_changes(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        first = run(command, picture_folder, *SHORT)
        assert first["changes"] is None
        disturb(picture_folder)
        said = status(command, picture_folder, *SHORT[:-2])["ingest"]["reasons"][0]
        assert said == (
            "data: 1 changed (p00.png), 1 added (p98.png), 1 removed (p01.png), "
            "1 renamed (p02.png → p99.png), 1 relabeled (p04.png)"
        )
        again = run(command, picture_folder, *SHORT)
        since = next(one["digest"] for one in first["stages"] if one["stage"] == "ingest")
        assert again["changes"] == {"since": since, **CHANGES}
        store = ArtifactStore.local(tmp_path / ".labelscape" / "store")
        (manifest,) = (one for one in store.entries() if one["stage"] == "ingest" and one["history"])
        assert manifest["history"] == again["changes"]
        assert RunLog(store).find(again["run"]).changes == again["changes"]

    @pytest.mark.slow
    def test_undoing_a_change_is_reported_although_the_manifest_exists_already(
        self, command: Command, picture_folder: Path
    ) -> None:
        run(command, picture_folder, *SHORT)
        image = picture_folder / "p00.png"
        before = image.read_bytes()
        Image.new("RGB", (24, 32), "red").save(image)
        run(command, picture_folder, *SHORT)
        image.write_bytes(before)
        again = run(command, picture_folder, *SHORT)
        assert {one["state"] for one in again["stages"]} == {"fresh"}
        assert again["changes"]["changed"] == ["p00.png"]
        assert "data       1 changed since" not in command("run", picture_folder, *SHORT).out

    @pytest.mark.slow
    def test_only_the_portion_of_the_changed_image_is_written(
        self, command: Command, picture_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tasks.stages.chunks.MEAN_ITEMS", 5)
        run(command, picture_folder, *SHORT)
        parts = tmp_path / ".labelscape" / "store" / "features_part"
        before = {path: path.stat().st_mtime_ns for path in parts.rglob("*.parquet")}
        assert len(before) > 3
        Image.new("RGB", (24, 32), "red").save(picture_folder / "p20.png")
        run(command, picture_folder, *SHORT)
        after = {path: path.stat().st_mtime_ns for path in parts.rglob("*.parquet")}
        assert len(after.items() - before.items()) == 1
        assert before.items() <= after.items()

    @pytest.mark.slow
    @pytest.mark.usefixtures("settled")
    def test_a_paranoid_run_finds_changes_that_sizes_and_times_hide(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        run(command, picture_folder, *SHORT)
        image = picture_folder / "p00.png"
        data = bytearray(image.read_bytes())
        data[-20] ^= 1
        image.write_bytes(data)
        pretend_unchanged(tmp_path / ".labelscape" / "cache", picture_folder, image)
        assert status(command, picture_folder, *SHORT[:-2])["ingest"]["state"] == "fresh"
        seen = status(command, picture_folder, *SHORT[:-2], "--paranoid")["ingest"]
        assert seen["reasons"] == ["data: 1 changed (p00.png)"]
        assert run(command, picture_folder, *SHORT, "--paranoid")["changes"]["changed"] == ["p00.png"]


def pretend_unchanged(cache: Path, folder: Path, image: Path) -> None:
    """Make the cached record of an image match its present size and times, since ctime cannot be set."""
    found = image.stat()
    for index in (cache / "listing").glob("*.json"):
        known = json.loads(index.read_text(encoding="utf-8"))
        if str(image) in known["files"]:
            digest = known["files"][str(image)][-1]
            state = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
            known["files"][str(image)] = [*state, found.st_ctime_ns + 10**10, digest]
            index.write_text(json.dumps(known), encoding="utf-8")
            memo = json.loads(index.with_suffix(".stamp").read_text(encoding="utf-8"))
            memo["stamp"] = stamp_files(folder, skip=cache).text
            index.with_suffix(".stamp").write_text(json.dumps(memo), encoding="utf-8")


@pytest.mark.slow
def test_only_the_named_stages_are_refreshed(command: Command, picture_folder: Path) -> None:
    first = run(command, picture_folder, *SHORT)
    again = run(command, picture_folder, *SHORT, "--refresh", "features", "--refresh", "correlation")
    computed = [one["stage"] for one in again["stages"] if one["state"] == "computed"]
    assert computed == ["features", "correlation"]
    assert [one["digest"] for one in again["stages"]] == [one["digest"] for one in first["stages"]]


class TestStatus:
    @pytest.mark.slow
    def test_it_looks_past_a_manifest_that_will_change(self, command: Command, picture_folder: Path) -> None:
        run(command, picture_folder, *SHORT)
        labels = picture_folder / "labels.csv"
        labels.write_text(
            labels.read_text(encoding="utf-8").replace("p04.png,", "p04.png,red"), encoding="utf-8"
        )
        before = sorted(path for path in Path(".labelscape/store").rglob("*") if path.is_file())
        found = status(command, picture_folder, *SHORT[:-2])
        states = {label: found[label]["state"] for label in ("ingest", "features", "affinity", "correlation")}
        assert states == {"ingest": "stale", "features": "fresh", "affinity": "fresh", "correlation": "stale"}
        assert found["correlation"]["reasons"] == ["data: labels changed"]
        assert sorted(path for path in Path(".labelscape/store").rglob("*") if path.is_file()) == before

    @pytest.mark.slow
    def test_stages_that_would_run_and_stages_that_may_run(
        self, command: Command, picture_folder: Path
    ) -> None:
        run(command, picture_folder, *SHORT)
        Image.new("RGB", (24, 32), "red").save(picture_folder / "p20.png")
        found = status(command, picture_folder, *SHORT[:-2])
        assert {label: found[label]["would_run"] for label in ("features", "affinity", "report")} == {
            "features": "yes",
            "affinity": "perhaps",
            "report": "yes",
        }
        text = command("status", picture_folder, *SHORT[:-2]).out
        assert re.search(r"^features +stale because 1 of 40 items to extract; data: ", text, re.M)
        assert "1 more if their inputs change, about " in text.splitlines()[-1]

    @pytest.mark.parametrize(
        ("stage", "name", "said"),
        [
            ("affinity", {"n_neighbors": (10, 15)}, "parameter affinity.n_neighbors 10 → 15"),
            ("affinity", {"scale": ("none", "unit")}, "parameter features.scale none → unit"),
            ("ingest", {"min_label_count": (1, 2)}, "parameter source.min_label_count 1 → 2"),
            ("embedding", {"weights": ("a", "b")}, "parameter annotation.weights a → b"),
            (
                "embedding",
                {"method": ({"params": {"tau": 1}}, {"params": {"tau": 2}})},
                "parameter embedding.params.mlda.tau 1 → 2",
            ),
            ("tracking", {"config": ({"name": None}, {"name": "x"})}, "parameter name none → x"),
        ],
    )
    def test_a_parameter_is_named_by_its_configuration_key(
        self, stage: str, name: dict[str, Any], said: str
    ) -> None:
        (key, (old, new)) = next(iter(name.items()))
        recipe = {"stage": stage, "variant": "mlda", "code": {}, "inputs": {}, "schema": 1}
        assert explain({**recipe, "params": {key: old}}, {**recipe, "params": {key: new}}) == [said]


class TestLineageInTheReport:
    @pytest.mark.slow
    def test_the_page_draws_the_lineage_and_is_rewritten_if_outdated(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        made = run(command, picture_folder, *SHORT[:-2])
        page = Path(made["report"])
        text = page.read_text(encoding="utf-8")
        assert '<a href="#lineage">Lineage</a>' in text
        drawing = text[text.index('<svg class="lineage"') : text.index("</svg>")]
        for one in made["stages"]:
            if one["stage"] not in ("report", "tracking"):
                name, _, variant = one["stage"].partition("[")
                assert f">{name}<" in drawing, "one box per stage"
                assert variant.removesuffix("]") in drawing
                assert one["digest"] in text
        assert drawing.count('class="outside"') == 1, "the bytes of the source"
        shown = page.with_name("lineage.json")
        shown.write_text("{}", encoding="utf-8")
        page.write_text("of other circumstances", encoding="utf-8")
        run(command, picture_folder, *SHORT[:-2])
        assert page.read_text(encoding="utf-8") == text

    def test_every_artifact_is_drawn_to_the_right_of_its_inputs(
        self, command: Command, picture_folder: Path, tmp_path: Path
    ) -> None:
        made = run(command, picture_folder, *SHORT)
        store = ArtifactStore.local(tmp_path / ".labelscape" / "store")
        stages = RunLog(store).find(made["run"]).stages
        family = flatten_lineage(LineageGraph(store, stages.values()).of_results(stages))
        names = [one.name for one in family]
        assert [one.label for one in family] == ["source", "ingest", "features", "affinity", "correlation"]
        assert all(names.index(given) < names.index(one.name) for one in family for given in one.inputs)
        assert all(one.code and one.versions["python"] for one in family[1:])
        drawing = render_lineage(family)
        assert drawing.count("<rect") == 5
        assert drawing.count("<path") == sum(len(one.inputs) for one in family)


def test_a_refused_setting_is_not_offered_again(command: Command, picture_folder: Path) -> None:
    given = ("run", picture_folder, *UNTRACKED, "--set", "embedding.n_components=9", "--methods", "mlda")
    done = command(*given)
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith(
        "n_components=9 exceeds K-1=2 for MLDA; lower it or add labels."
    )
    assert "resume" not in done.err
