"""The command line as people and scripts use it: results, refusals, and no partial output."""

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from embedding_core.metrics import METRICS
from embedding_core.registry import METHODS
from flows.cli import build_parser
from flows.commands import COMMANDS
from tests.conftest import (
    REPOSITORY,
    UNTRACKED,
    Command,
    interrupt_at,
    leftovers,
    start_command,
    write_pictures,
)

HEAVY = {"prefect", "mlflow", "sklearn", "numpy", "scipy", "pyarrow", "pydantic", "matplotlib", "numba"}
ONLY_TO_COMPUTE = {"mlflow", "sklearn", "scipy", "pandas", "matplotlib", "numba", "pyarrow.compute"}
METRIC_NAMES = {metric.name for metric in METRICS}


class TestWithoutWork:
    @pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], []])
    def test_help_imports_nothing_heavy(self, arguments: list[str]) -> None:
        code = (
            "import sys\nfrom flows.cli import main\n"
            f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert not end.code\n"
            f"print(sorted(set(sys.modules) & {HEAVY!r}), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        assert "labelscape" in done.stdout
        assert done.stderr.strip() == "[]"

    def test_help_shows_each_command_beside_its_description(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        build_parser().print_help()
        lines = capsys.readouterr().out.splitlines()
        listed = {line.split()[0]: line for line in lines if line.startswith("    ") and line[4] != " "}
        assert set(listed) == set(COMMANDS)
        assert len({line.index(COMMANDS[name].help[:12]) for name, line in listed.items()}) == 1

    @pytest.mark.parametrize("arguments", [["rnu"], ["run", "--frobnicate"], ["stage"], ["annotate"]])
    def test_a_wrong_command_ends_with_2(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        from flows.cli import main

        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        assert "usage: labelscape" in capsys.readouterr().err

    def test_methods(self, command: Command) -> None:
        shown = command("methods")
        assert shown.code == 0
        lines = {line.split()[0]: line for line in shown.out.splitlines()[2:] if line}
        for name, method in METHODS.items():
            reach = "inductive" if method.inductive else "transductive"
            for fact in (method.title, method.paper, f" {reach} ", method.cost):
                assert fact in lines[name]
        listed = json.loads(command("methods", "--json").out)
        assert [entry["name"] for entry in listed] == list(METHODS)
        assert {"title", "paper", "reach", "labels", "cost", "equations"} <= set(listed[0])

    def test_the_traceback_of_an_unexpected_error_is_written_to_a_file(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flows.commands.listing.methods", lambda options: 1 / 0)
        done = command("methods", "--home", tmp_path / "home")
        assert done.code == 1
        assert done.err.startswith("labelscape: unexpected ZeroDivisionError: division by zero")
        (crash,) = (tmp_path / "home" / "logs").iterdir()
        assert str(crash) in done.err
        assert "Traceback" in crash.read_text(encoding="utf-8")
        assert "Traceback" not in done.err
        assert "Traceback" in command("methods", "--home", tmp_path / "home", "--verbose").err

    @pytest.mark.parametrize("file", ["labelscape.toml", "other.toml"])
    def test_the_crash_file_is_written_to_the_configured_home(
        self, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
    ) -> None:
        (tmp_path / file).write_text('home = "there"\n')
        monkeypatch.setattr("flows.commands.status.status", lambda options: 1 / 0)
        done = command("status", *([file] if file == "other.toml" else []))
        (crash,) = (tmp_path / "there" / "logs").iterdir()
        assert str(crash) in done.err
        assert not (tmp_path / ".labelscape").exists()

    def test_an_interrupted_command_prints_how_to_resume(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(options: object) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr("flows.commands.run.run", interrupt)
        done = command("run", "my pictures", "--set", "name=a b")
        assert done.code == 130
        assert "resume with: labelscape run 'my pictures' --set 'name=a b'" in done.err


class TestConfig:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "overrides",
        [
            [],
            ["embedding.method=dle", "embedding.params.dle.n_components=2", "embedding.params.svm.C=0.5"],
            [
                "source.drop_labels=['a', 'b|\"c']",
                "affinity.sigma=2",
                "features.color_moments.grid=[4, 2]",
                "executor=threads:3",
            ],
            ["name=été \u007f \\", "tracking.enabled=false", "tracking.uri=sqlite:////a.db"],
        ],
    )
    def test_a_shown_configuration_can_be_loaded(
        self, command: Command, tmp_path: Path, overrides: list[str]
    ) -> None:
        given = [part for override in overrides for part in ("--set", override)]
        shown = command("config", "--show", *given)
        assert shown.code == 0
        file = tmp_path / "elsewhere" / "c.toml"
        file.parent.mkdir()
        file.write_text(shown.out, encoding="utf-8")
        assert tomllib.loads(shown.out)["evaluation"]["folds"] == 5
        assert command("config", file).out == shown.out
        assert command("config", file, "--json").out == command("config", *given, "--json").out

    def test_a_shown_source_is_found_from_another_folder(
        self, command: Command, tmp_path: Path, picture_folder: Path
    ) -> None:
        shown = tomllib.loads(command("config", "pictures").out)
        assert shown["source"]["path"] == str(picture_folder)

    @pytest.mark.parametrize(
        ("override", "place", "value"),
        [
            ("affinity.n_neighbors=7", "affinity.n_neighbors", 7),
            ("affinity.weights=heat", "affinity.weights", "heat"),
            ('affinity.weights="heat"', "affinity.weights", "heat"),
            ("tracking.enabled=false", "tracking.enabled", False),
            ("evaluation.n_neighbors=[1, 3]", "evaluation.n_neighbors", [1, 3]),
            ("embedding.method=dle", "embedding.methods", ["dle"]),
            ("embedding.methods=dle, mlda", "embedding.methods", ["dle", "mlda"]),
            ("embedding.params.mlda={n_components = 2}", "embedding.params.mlda.n_components", 2),
            (" name = x=y ", "name", "x=y"),
        ],
    )
    def test_set(self, command: Command, override: str, place: str, value: object) -> None:
        found: Any = json.loads(command("config", "--set", override, "--json").out)
        for key in place.split("."):
            found = found[key]
        assert found == value

    def test_arguments_take_precedence_over_the_file_and_the_environment(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LABELSCAPE_HOME", "/nowhere")
        (tmp_path / "labelscape.toml").write_text('name = "mine"\n[embedding]\nmethods = ["mlda"]\n')
        found = json.loads(command("config", "--json", "--methods", "dle,svm", "--home", "h").out)
        assert found["embedding"]["methods"] == ["dle", "svm"]
        assert (found["name"], found["home"]) == ("mine", "h")


@pytest.mark.usefixtures("without_engine")
class TestStages:
    def labels(self, done: dict[str, Any], state: str) -> set[str]:
        return {stage["stage"] for stage in done["stages"] if stage["state"] == state}

    def give(self, command: Command, *arguments: object) -> dict[str, Any]:
        done = command(*arguments, *UNTRACKED, "--json")
        assert done.code == 0, done.err
        record: dict[str, Any] = json.loads(done.out)
        return record

    @pytest.mark.slow
    def test_until_refresh_and_status(self, command: Command, picture_folder: Path) -> None:
        first = self.give(command, "run", picture_folder, "--until", "correlation")
        assert self.labels(first, "computed") == {"ingest", "features", "affinity", "correlation"}
        assert first["report"] is None
        assert first["methods"] == {}
        again = self.give(command, "run", picture_folder, "--until", "correlation", "--refresh", "affinity")
        assert self.labels(again, "computed") == {"affinity"}
        assert all(stage["seconds"] >= 0 for stage in again["stages"])
        listed = json.loads(command("status", picture_folder, *UNTRACKED, "--json").out)
        states = {one["label"]: one["state"] for one in listed}
        assert states["features"] == "fresh"
        assert states["embedding[mlda]"] == "missing"
        shown = command("status", picture_folder, *UNTRACKED, "--set", "affinity.n_neighbors=4")
        assert re.search(r"^affinity +stale because parameter affinity.n_neighbors 10 → 4", shown.out, re.M)
        assert "of 17 stages would run" in shown.out

    @pytest.mark.slow
    def test_a_forced_stage_reads_every_image_again(
        self, command: Command, picture_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.give(command, "run", picture_folder, "--until", "features")
        from embedding_core.features import extraction

        seen: list[str] = []
        extract = extraction.extract_file
        monkeypatch.setattr(
            extraction, "extract_file", lambda path, *given: seen.append(path.name) or extract(path, *given)
        )
        self.give(command, "run", picture_folder, "--until", "features")
        assert seen == []
        forced = self.give(command, "run", picture_folder, "--until", "features", "--refresh", "features")
        assert len(seen) == 40
        assert self.labels(forced, "computed") == {"features"}

    def test_stage_names_are_checked_once(self, command: Command, picture_folder: Path) -> None:
        done = command("stage", "feature", picture_folder, "--force")
        assert done.code == 2
        assert "labelscape: feature: no such stage. Did you mean features?" in done.err


def test_compare_refuses_an_unknown_metric_at_once(command: Command) -> None:
    done = command("compare", "--sort-by", "acc")
    assert done.code == 2
    assert "--sort-by acc: no such metric; choose from macro_precision" in done.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home and one collection for all tests below; the first run fills them."""
    folder = tmp_path_factory.mktemp("whole")
    write_pictures(folder / "pictures", 40)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
class TestWholeRuns:
    """With Prefect and MLflow; the tests of this class depend on their order."""

    def test_a_first_run_prints_its_results(self, command: Command, place: Path) -> None:
        done = command("run", place / "pictures", "--home", place / "home")
        assert done.code == 0
        for text in (
            "MLDA, 1NN",
            "Multi-label DLE, 10NN",
            "Scaled SVM (baseline)",
            "±",
            "18 computed, 0 fresh",
        ):
            assert text in done.out
        assert f"report     {place / 'home' / 'reports'}" in done.out
        assert "tracked    run " in done.out
        assert not leftovers(place)

    def test_a_second_run_is_all_fresh_and_a_script_can_read_it(self, command: Command, place: Path) -> None:
        done = command("run", place / "pictures", "--home", place / "home", "--json")
        found = json.loads(done.out)
        assert {stage["state"] for stage in found["stages"]} == {"fresh"}
        assert len(found["stages"]) == 18
        assert all(stage["seconds"] < 1 and stage["digest"] and stage["key"] for stage in found["stages"])
        assert set(found["methods"]) == {"mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm"}
        for method in found["methods"].values():
            assert len(method["run_id"]) == 32
            for metrics in (method["metrics"], *method["classifiers"].values()):
                assert set(metrics) == METRIC_NAMES
                assert all(
                    isinstance(one[part], float) for one in metrics.values() for part in ("mean", "std")
                )
        assert set(found["methods"]["mlda"]["classifiers"]) == {"1nn", "10nn"}
        assert len(found["tracking"]["run_id"]) == 32
        assert found["tracking"]["problem"] is None
        assert Path(found["report"]).is_file()

    def test_a_second_run_imports_no_numeric_library(self, place: Path) -> None:
        given = ["run", str(place / "pictures"), "--home", str(place / "home"), "--json"]
        code = (
            f"import sys\nfrom flows.cli import main\nassert main({given!r}) == 0\n"
            f"print(sorted(set(sys.modules) & {ONLY_TO_COMPUTE!r}), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "[]"

    def test_status_then_a_forced_stage(self, command: Command, place: Path) -> None:
        given = (place / "pictures", "--home", place / "home")
        assert command("status", *given).out.endswith("Nothing would run.\n")
        forced = json.loads(command("stage", "evaluation", *given, "--force", "--json").out)
        computed = {stage["stage"] for stage in forced["stages"] if stage["state"] == "computed"}
        assert len(computed) == 5
        assert all(name.startswith("evaluation[") for name in computed)

    def test_compare(self, command: Command, place: Path) -> None:
        shown = command("compare", "--home", place / "home", "--sort-by", "hamming_loss")
        assert "best Hamming loss first" in shown.out
        assert shown.out.count("±") == 7 * 6 + 1 + 3
        assert "MLDA, 10NN" in shown.out
        assert "the best plain baseline" in shown.out.splitlines()[-1]
        assert "noise (" in shown.out.splitlines()[-1]
        listed = json.loads(
            command(
                "compare", "pictures", "--home", place / "home", "--sort-by", "hamming_loss", "--json"
            ).out
        )
        losses = [run["metrics"]["hamming_loss"] for run in listed]
        assert losses == sorted(losses)
        assert {run["method"] for run in listed} == {"mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm"}
        assert all(set(run["metrics_std"]) >= METRIC_NAMES for run in listed)
        where = ("--where", "method=mlda", "--where", "classifier=10nn")
        lines = command("compare", "--home", place / "home", "--csv", *where).out.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("mlda,10nn,False,0.")
        grouped = command("compare", "--home", place / "home", "--group-by", "classifier")
        assert {line.split()[0] for line in grouped.out.splitlines()[3:-1]} == {
            "1nn",
            "10nn",
            "1nn_zscore",
            "svm",
        }
        by_method = ("compare", "--home", place / "home", "--group-by", "method")
        assert {one["method"] for one in json.loads(command(*by_method, "--json").out)} >= {"mlda", "svm"}
        assert command(*by_method, "--csv").out.startswith("method,results,best,")
        none = command("compare", "--home", place / "home", "--where", "affinity.n_neighbors=77")
        assert "no result meets these conditions" in none.out
        refused = command("compare", "--home", place / "home", "--diff", "--csv")
        assert (refused.code, "--diff prints text" in refused.err) == (2, True)
        marked = command(
            "compare", "--home", place / "home", "--markdown", "--columns", "macro_f1,data.items"
        )
        assert marked.out.startswith("| method | macro F1 ↑ | items |")
        page = command("compare", "--home", place / "home", "--html").out
        assert page.startswith("<!doctype html>")
        assert "MLDA, 10NN" in page
        alone = command("compare", "--home", place / "home", "--diff")
        assert alone.code == 2
        assert "--diff takes the ids of two runs; this experiment has" in alone.err
        unknown = command("compare", "pictrues", "--home", place / "home")
        assert unknown.code == 2
        assert f"no experiment 'pictrues' at sqlite:///{place}" in unknown.err
        assert "did you mean 'pictures'?" in unknown.err

    def test_annotate(self, command: Command, place: Path, tmp_path: Path) -> None:
        new = write_pictures(tmp_path / "new", 5)
        home = ("--home", place / "home")
        for method in ("multilabel_dle", "svm"):
            done = json.loads(command("annotate", new, *home, "--method", method, "--json").out)
            assert (done["method"], done["items"]) == (method, 5)
        absent = command("annotate", new, *home, "--method", "dle")
        assert absent.code == 2
        held = absent.err.partition("it has models of: ")[2].partition(".")[0]
        assert set(held.split(", ")) == {"mlda", "multilabel_dle", "1nn", "1nn_zscore", "svm"}
        unknown = command("annotate", new, *home, "--run", "abc")
        assert unknown.code == 2
        assert "no run 'abc'" in unknown.err

    def test_a_tracker_that_does_not_answer_loses_no_result(self, command: Command, place: Path) -> None:
        given = (place / "pictures", "--home", place / "home", "--set", "tracking.uri=http://127.0.0.1:9")
        done = command("run", *given)
        assert done.code == 0
        assert "MLDA, 1NN" in done.out
        assert "NOT TRACKED: no tracking server answers at http://127.0.0.1:9" in done.out
        problem = json.loads(command("run", *given, "--json").out)["tracking"]["problem"]
        assert "labelscape up" in problem

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["no/such/folder"], "there is no file or folder"),
            (["iris", "--set", "embedding.n_components=7"], "embedding[mlda]: n_components=7 exceeds K-1=2"),
        ],
    )
    def test_a_refused_command_prints_one_message(
        self, tmp_path: Path, arguments: list[str], says: str
    ) -> None:
        done = start_command(tmp_path, "run", *arguments)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 2
        assert out == ""
        news = [line for line in err.splitlines() if "computed in" not in line and "resume" not in line]
        assert len(news) == 1
        assert says in news[0]

    def test_a_terminated_run_prints_how_to_resume(self, tmp_path: Path) -> None:
        run = start_command(tmp_path, "run", "digits", *UNTRACKED)
        err = interrupt_at(run, "  features  ", signal.SIGTERM)
        assert err.splitlines()[-1].startswith("resume with: labelscape run digits")

    def test_the_termination_error_of_prefect_is_handled(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A second SIGTERM can arrive while Prefect shuts a flow down."""
        from prefect.exceptions import TerminationSignal

        from flows.cli import main

        def run(options: object) -> int:
            raise TerminationSignal(signal=signal.SIGTERM)

        monkeypatch.setattr("flows.commands.run.run", run)
        before = signal.getsignal(signal.SIGTERM)
        try:
            assert main(["run", "iris"]) == 143
        finally:
            signal.signal(signal.SIGTERM, before)
        assert capsys.readouterr().err.endswith("resume with: labelscape run iris\n")

    def test_an_interrupted_run_keeps_finished_stages(self, tmp_path: Path) -> None:
        run = start_command(tmp_path, "run", "digits", *UNTRACKED)
        err = interrupt_at(run, "  features  ")
        assert "interrupted; finished stages are kept.\nresume with: labelscape run digits" in err
        assert err.splitlines()[-1].startswith("resume with: labelscape run digits"), "nothing after it"
        assert "Traceback" not in err
        assert not leftovers(tmp_path)
        status = start_command(tmp_path, "status", "digits", *UNTRACKED)
        assert re.search(r"^features +fresh$", status.communicate(timeout=60)[0], re.M)
