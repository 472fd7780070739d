"""`labelscape auto`: the leaderboard, the titles in MLflow's registry, refusals."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import ConfigError
from storage.tracking.client import Tracker, default_uri
from storage.tracking.engine import open_client
from storage.tracking.registry import CHALLENGER, CHAMPION, ModelRegistry
from tasks.executor import SerialExecutor
from tests.conftest import UNTRACKED, Command, interrupt_at, leftovers, start_command
from tests.tasks.test_lineage import walk_inputs

QUICK = ("--set", "evaluation.folds=4", "--set", "embedding.params.random_forest.n_estimators=10")


def write_table(file: Path, n: int = 160) -> Path:
    """Two classes that nearest neighbors separate and a plane does not."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(n, 2))
    classes = np.where((X[:, 0] > 0) == (X[:, 1] > 0), "same", "other")
    with file.open("w", newline="") as place:
        writer = csv.writer(place)
        writer.writerow(["f0", "f1", "class"])
        writer.writerows([*row, name] for row, name in zip(X.tolist(), classes.tolist(), strict=True))
    return file


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch, without_engine: None) -> None:
    """Folds in this process, stages without Prefect."""
    monkeypatch.setattr("flows.runner.make_executor", lambda setting, home=None: SerialExecutor())


def test_the_budget_starts_with_the_command(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = []

    def execute(run: Any, verbose: bool) -> None:
        budgets.append(run.plan.budget)
        raise ConfigError("no stage may start")

    monkeypatch.setattr("flows.runner.Run.execute", execute)
    assert command("auto", write_table(tmp_path / "t.csv"), "--budget", "5m", *UNTRACKED).code == 2
    assert [one.seconds for one in budgets] == [300]
    assert budgets[0].spent > 0


@pytest.mark.usefixtures("inline")
class TestWithoutTracker:
    @pytest.mark.slow
    def test_the_leaderboard_names_the_winner_and_marks_baselines(
        self, command: Command, tmp_path: Path
    ) -> None:
        table = write_table(tmp_path / "t.csv")
        done = command("auto", table, *QUICK, *UNTRACKED, "--candidates", "mlda_knn,1nn,mlls,svm")
        assert done.code == 0
        lines = done.out.splitlines()
        assert [line.split("  ")[0] for line in lines[3:6]] == [
            "Scaled SVM (baseline)",
            "1NN, input as given (baseline)",
            "MLDA + tuned kNN",
        ]
        assert "stopped     MLLS: after 2 folds" in done.out
        assert "winner      Scaled SVM, " in done.out
        assert "a plain baseline: no other candidate scored better" in done.out
        title = "champion, a plain baseline: the first champion of this collection; not registered (tracking"
        assert f"title       {title}" in done.out
        assert "labels are decided" not in done.out
        assert "candidate 2 of 4: 1NN, input as given (budget left: 9 min" in done.err
        (line,) = [one for one in lines if one.startswith("time ")]
        assert " of the budget of 10 min 0 s: data and features " in line
        assert "to track it" not in line

    @pytest.mark.slow
    def test_json_contains_every_candidate(self, command: Command, tmp_path: Path) -> None:
        table = write_table(tmp_path / "t.csv")
        done = command("auto", table, *QUICK, *UNTRACKED, "--candidates", "1nn,mlls", "--json")
        assert done.err == ""
        found = json.loads(done.out)
        assert (found["winner"], found["title"], found["plain_baseline_won"]) == ("1nn", "champion", True)
        assert (found["champion_is_plain"], found["tune_for"]) == (True, "hamming")
        states = {one["name"]: (one["state"], len(one["metrics"]["macro_f1"])) for one in found["candidates"]}
        assert states == {"1nn": ("scored", 4), "mlls": ("stopped", 2)}
        assert found["registry"] == {"model": None, "champion": None, "challenger": None, "changed": False}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("metric", "says"),
        [
            (
                "macro_f1",
                "labels are decided by tuned thresholds, one per label, chosen for macro F1 on",
            ),
            (
                "micro_f1",
                "labels are decided by one tuned threshold chosen for micro F1 on the other folds\n",
            ),
            ("hamming_loss", None),
        ],
    )
    def test_the_output_explains_how_labels_are_decided(
        self, command: Command, tmp_path: Path, metric: str, says: str | None
    ) -> None:
        rows = [f"{n % 7},{n % 5},{n % 2},{int(n % 7 > 4)}" for n in range(40)]
        (tmp_path / "t.csv").write_text("\n".join(["f0,f1,label:a,label:b", *rows]) + "\n")
        chosen = ("--set", f"evaluation.sort_by={metric}", "--candidates", "1nn")
        said = command("auto", "t.csv", *QUICK, *UNTRACKED, *chosen).out
        assert says in said if says else "labels are decided" not in said

    @pytest.mark.slow
    def test_the_output_warns_of_selection_bias(self, command: Command, tmp_path: Path) -> None:
        table = write_table(tmp_path / "t.csv")
        names = "mlls,kernel_dle,1nn,mlda_knn"
        said = command("auto", table, *QUICK, *UNTRACKED, "--candidates", names).out
        assert "winner      Kernel DLE" in said
        bias = "it is the best of 3 on the same folds, so its score is slightly optimistic"
        rule = "the best of 3 candidates without a true lead is ahead in at most 1 of 20 cases"
        assert f"            noise: the lead by which {rule}\n" in said
        assert f"            {bias}\n" in said

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (
                ["iris", "--budget", "10x"],
                "auto.budget: '10x' is not a positive duration; write for instance",
            ),
            (["iris", "--budget", "0s"], "auto.budget: '0s' is not a positive duration"),
            (["iris", "--candidates", "rbf_scv"], "Did you mean rbf_svc?"),
            (["iris", "--candidates", "mlda"], "cannot annotate new items by itself"),
            (["one.csv"], "1 of 4 labels have two or more labeled items"),
            (["none.csv"], "none of the 4 items carries a label"),
            (["few.csv", "--set", "evaluation.folds=5"], "4 labeled items for 5 folds"),
        ],
    )
    def test_what_is_refused(self, command: Command, tmp_path: Path, arguments: list[str], says: str) -> None:
        for name, labels in (("one", "abacad"), ("none", "    "), ("few", "abab")):
            rows = [f"{number},{number % 3},{label.strip()}" for number, label in enumerate(labels)]
            (tmp_path / f"{name}.csv").write_text("\n".join(["f0,f1,class", *rows]) + "\n")
        done = command("auto", *arguments, *UNTRACKED, "--home", "home")
        assert done.code == 2
        assert done.out == ""
        assert says in done.err
        assert "Traceback" not in done.err
        assert not leftovers(tmp_path)

    @pytest.mark.slow
    def test_a_tracker_that_does_not_answer_loses_no_result(self, command: Command, tmp_path: Path) -> None:
        table = write_table(tmp_path / "t.csv")
        done = command(
            "auto", table, *QUICK, "--candidates", "1nn", "--set", "tracking.uri=http://127.0.0.1:9"
        )
        assert done.code == 0
        assert "NOT TRACKED: no tracking server answers at http://127.0.0.1:9" in done.out
        assert "repeat the command to track and register them" in done.out
        assert json.loads(command("sync", "--json").out)["runs"] == []

    @pytest.mark.slow
    def test_a_selection_is_repeated_as_a_selection(self, command: Command, tmp_path: Path) -> None:
        table = write_table(tmp_path / "t.csv")
        given = ("auto", table, *QUICK, *UNTRACKED, "--candidates", "mlda_knn,1nn")
        first = json.loads(command(*given, "--json").out)
        again = command("run", "--as", first["run"], "--json")
        assert again.code == 0, again.err
        found = json.loads(again.out)
        assert found["repeats"] == {"run": first["run"], "differ": [], "not_run": [], "more": []}
        assert (found["run"], found["winner"]) == (first["run"], first["winner"])
        write_table(table, 170)
        said = command("run", "--as", first["run"]).out
        assert f"differs from {first['run']} in ingest, features" in said
        refused = command("run", "--as", first["run"], "--until", "features")
        assert refused.code == 2
        assert "is a run of `labelscape auto`, which has no --refresh, --from or --until" in refused.err

    def test_the_lineage_of_a_choice_ends_at_the_bytes_of_the_source(
        self, command: Command, tmp_path: Path
    ) -> None:
        table = write_table(tmp_path / "t.csv")
        command("auto", table, *QUICK, *UNTRACKED, "--candidates", "1nn,mlls")
        roots = json.loads(command("lineage", "--json").out)["results"]
        assert {one["label"] for one in roots} == {"choice", "model[1nn]"}
        for root in roots:
            below = walk_inputs(root)
            assert {one["label"] for one in below if not one["inputs"]} == {"source"}

    @pytest.mark.slow
    def test_a_candidate_of_two_folds_is_not_mistaken_for_its_trial(
        self, command: Command, tmp_path: Path
    ) -> None:
        table = write_table(tmp_path / "t.csv")
        given = (*UNTRACKED, "--set", "evaluation.folds=2", "--candidates", "1nn", "--json")
        made = json.loads(command("auto", table, *given).out)
        stages = {one["stage"]: one for one in made["stages"]}
        assert stages["trial[1nn]"]["digest"] == stages["candidate[1nn]"]["digest"]
        for label, one in stages.items():
            text = command("lineage", one["key"]).out
            assert text.startswith(f"{label}  {one['digest'][:12]}")
        assert "└─ candidate[1nn]  " in command("lineage", stages["choice"]["key"]).out


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
class TestTitles:
    """One database for the history of a collection."""

    def test_a_collection_and_its_champions(self, command: Command, tmp_path: Path) -> None:
        table, home = write_table(tmp_path / "t.csv"), tmp_path / "home"

        def auto(*candidates: str) -> dict[str, Any]:
            names = ",".join(candidates)
            done = command("auto", table, *QUICK, "--home", home, "--candidates", names, "--json")
            assert done.code == 0, done.err
            return dict(json.loads(done.out))

        def held(alias: str) -> str | None:
            tracker = Tracker(default_uri(home))
            found = ModelRegistry(tracker).find("labelscape-t", alias)
            return found and f"{found.version} {json.loads(found.tags['labelscape.recipe'])['method']}"

        first = auto("mlls")
        assert first["title"] == "challenger"
        assert "no plain baseline was among the candidates" in first["reason"]
        assert (held(CHAMPION), held(CHALLENGER)) == (None, "1 mlls")

        again = auto("mlls")
        assert not again["registry"]["changed"]
        assert again["tracking"]["run_id"] == first["tracking"]["run_id"]
        assert held(CHALLENGER) == "1 mlls"

        better = auto("1nn")
        assert (better["title"], better["reason"]) == ("champion", "the first champion of this collection")
        assert (held(CHAMPION), held(CHALLENGER)) == ("2 1nn", None)

        level = auto("kernel_dle")  # the champion enters by itself
        assert [one["name"] for one in level["candidates"]] == ["1nn", "kernel_dle"]
        assert (level["winner"], level["title"]) == ("kernel_dle", "challenger")
        assert "within noise" in level["reason"]
        assert (held(CHAMPION), held(CHALLENGER)) == ("2 1nn", "3 kernel_dle")
        assert not auto("kernel_dle")["registry"]["changed"]

        assert level["champion_is_plain"]
        reported = command("auto", table, *QUICK, "--home", home, "--candidates", "kernel_dle").out
        assert (
            "champion    stays 1NN, input as given, a plain baseline, version 2 of labelscape-t" in reported
        )

        self.annotates(command, tmp_path, home, "1nn", "2")

        write_table(table, 170)  # new labels: the champion's recipe is scored and fitted again
        grown = auto("kernel_dle")
        assert grown["winner"] == "kernel_dle"
        assert grown["title"] == "challenger"
        assert (held(CHAMPION), held(CHALLENGER)) == ("5 1nn", "4 kernel_dle")

        reported = command("auto", table, *QUICK, "--home", home, "--candidates", "1nn,mlls")
        assert (
            "champion    version 5 of labelscape-t, a plain baseline: it has the title already"
            in reported.out
        )
        assert held(CHALLENGER) is None
        plain = auto("svm")  # a better plain baseline, within noise: it becomes champion
        assert (plain["title"], held(CHAMPION)) == ("champion", "6 svm")
        assert "1NN, input as given, is below the best plain baseline, Scaled SVM" in plain["reason"]
        client = open_client(default_uri(home))
        client.delete_model_version_tag("labelscape-t", "6", "labelscape.recipe")  # as if registered by hand
        reported = command("auto", table, *QUICK, "--home", home, "--candidates", "1nn")
        assert "was not registered by labelscape auto and stays" in reported.out
        assert "champion    stays another model, version 6 of labelscape-t\n" in reported.out
        tags = client.get_run(first["tracking"]["run_id"]).data.tags
        for stage in ("ingest", "features", "candidate[mlls]", "choice", "model[mlls]"):
            assert tags[f"labelscape.code.{stage}"]
            digest = next(one["digest"] for one in first["stages"] if one["stage"] == stage)
            assert tags[f"labelscape.digest.{stage}"] == digest
        shown = json.loads(command("compare", "t", "--home", home, "--all", "--json").out)
        assert {run["method"] for run in shown} == {"mlls", "1nn", "kernel_dle", "svm"}
        assert any(run["title"].endswith("(stopped early)") for run in shown)

    def test_thresholds_reach_the_registry_and_annotate(self, command: Command, tmp_path: Path) -> None:
        rng = np.random.default_rng(2)
        X = rng.normal(size=(160, 3)).round(3)
        Y = (X[:, :2] + 0.8 * rng.normal(size=(160, 2)) > [0.3, 1.5]).astype(int)
        rows = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
        (tmp_path / "t.csv").write_text("\n".join(["f0,f1,f2,label:a,label:rare", *rows]) + "\n")
        new = [",".join(map(str, x)) for x in rng.normal(size=(200, 3)).round(3).tolist()]
        (tmp_path / "new.csv").write_text("\n".join(["f0,f1,f2", *new]) + "\n")

        def labels(metric: str) -> tuple[dict[str, Any], dict[str, int], str]:
            given = ("--home", "home", "--candidates", "svm", "--set", f"evaluation.sort_by={metric}")
            found = json.loads(command("auto", "t.csv", *QUICK, *given, "--json").out)
            done = command("annotate", "new.csv", "--home", "home", "--json")
            reported = command("annotate", "new.csv", "--home", "home").out
            return found, dict(json.loads(done.out)["labels"]), reported

        half, counted, said = labels("hamming_loss")
        tuned, counted_tuned, said_tuned = labels("macro_f1")
        assert (half["registry"]["champion"], tuned["registry"]["champion"]) == ("1", "2")
        kept = ModelRegistry(Tracker(default_uri(tmp_path / "home"))).find("labelscape-t", CHAMPION)
        assert kept
        assert kept.tags["labelscape.tune_for"] == "macro_f1"
        assert "tuned" not in said
        assert "annotated by Scaled SVM (tuned thresholds) of run" in said_tuned
        assert counted_tuned["rare"] > counted["rare"] + 10
        with (tmp_path / "annotations.csv").open(newline="") as place:
            for row in csv.DictReader(place):
                decided = float(row["score:rare"]) > float(row["threshold:rare"])
                assert ("rare" in row["labels"].split("|")) == decided
        shown = json.loads(command("compare", "t", "--home", "home", "--json").out)
        assert {run["title"] for run in shown} == {"Scaled SVM", "Scaled SVM (tuned thresholds)"}

    def annotates(self, command: Command, folder: Path, home: Path, method: str, version: str) -> None:
        (folder / "new.csv").write_text("f0,f1\n0.5,0.5\n-0.5,0.5\n")
        done = command("annotate", "new.csv", "--home", home)
        assert done.code == 0
        assert f"champion: version {version} of labelscape-t, a plain baseline" in done.out
        assert f"champion: version {version} of labelscape-t, a plain baseline" in done.err
        record = json.loads(command("annotate", "new.csv", "--home", home, "--json").out)
        assert record["champion"] == {
            "model": "labelscape-t",
            "version": version,
            "plain_baseline": True,
        }
        assert record["method"] == method
        assert record["labels"] == {"other": 1, "same": 1}
        newest = json.loads(
            command("annotate", "new.csv", "--home", home, "--method", "kernel_dle", "--json").out
        )
        assert (newest["champion"], newest["method"]) == (None, "kernel_dle")
        wrong = command("annotate", "new.csv", "--home", home, "--experiment", "u")
        assert wrong.code == 2
        assert "no experiment 'u'" in wrong.err


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
class TestProcess:
    """Real processes, a real Prefect server, a real MLflow database."""

    def choose(self, folder: Path, *arguments: str) -> dict[str, Any]:
        done = start_command(folder, "auto", *arguments, "--json")
        out, err = done.communicate(timeout=900)
        assert done.returncode == 0, err
        return dict(json.loads(out))

    def check(self, found: dict[str, Any]) -> None:
        """Conditions that hold for any data."""
        means = {
            one["name"]: float(np.mean(one["metrics"]["macro_f1"]))
            for one in found["candidates"]
            if one["state"] == "scored"
        }
        assert found["winner"] == max(means, key=lambda name: means[name])
        assert {"random_forest", "rbf_svc"} <= {one["name"] for one in found["candidates"] if one["metrics"]}
        assert means[found["winner"]] >= max(means.get("random_forest", 0), means.get("rbf_svc", 0))
        assert (found["title"], found["registry"]["champion"]) == ("champion", "1")
        assert found["prefect"]["problem"] is None

    def test_wine(self, tmp_path: Path) -> None:
        found = self.choose(tmp_path, "wine")
        self.check(found)
        accuracy = {
            one["name"]: np.mean(one["metrics"]["accuracy"]) for one in found["candidates"] if one["metrics"]
        }
        assert accuracy.pop("cosine_knn") > 0.8, "one column has values a thousand times larger than others"
        assert min(accuracy.values()) > 0.9
        again = self.choose(tmp_path, "wine")
        assert {one["state"] for one in again["stages"]} == {"fresh"}
        assert not again["registry"]["changed"]
        lineage = start_command(tmp_path, "lineage", found["run"])
        assert "candidate[kernel_dle]" in lineage.communicate(timeout=120)[0]

    def test_emotions(self, tmp_path: Path, shared_data: Path) -> None:
        found = self.choose(tmp_path, str(shared_data / "emotions"))
        self.check(found)
        lrap = {one["name"]: np.mean(one["metrics"]["lrap"]) for one in found["candidates"] if one["metrics"]}
        assert lrap["kernel_dle"] > 0.82
        assert lrap["kernel_dle"] > lrap["random_forest"]

    def test_a_budget_ends_a_fit_that_takes_longer(self, tmp_path: Path) -> None:
        trees = ("--set", "embedding.params.random_forest.n_estimators=1000000")
        run = start_command(
            tmp_path,
            "auto",
            "digits",
            "--budget",
            "60s",
            "--candidates",
            "1nn,random_forest",
            *trees,
            *UNTRACKED,
        )
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        assert "not scored  Random forest: the budget of 1 min 0 s ended" in out
        assert "Random forest, a plain baseline, was not scored" in out

    def test_an_interrupt_keeps_finished_candidates(self, tmp_path: Path) -> None:
        trees = ("--set", "embedding.params.random_forest.n_estimators=1000000")
        given = ("auto", "digits", "--candidates", "1nn,random_forest", *trees, *UNTRACKED)
        err = interrupt_at(start_command(tmp_path, *given), "candidate 2 of 2")
        assert "interrupted; finished stages are kept.\nresume with: labelscape auto digits" in err
        assert not leftovers(tmp_path)
        found = self.choose(tmp_path, "digits", "--candidates", "1nn", *UNTRACKED)
        states = {one["stage"]: one["state"] for one in found["stages"]}
        assert states["candidate[1nn]"] == "fresh"
