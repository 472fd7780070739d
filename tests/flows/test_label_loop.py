"""The whole loop on the demo collection: annotate, review, correct, next, label, run again, see the gain."""

import csv
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from storage.sources import SourceOptions, open_source
from storage.tracking.client import Tracker, default_uri
from storage.tracking.curve import LabelCurve
from storage.tracking.registry import CHALLENGER, CHAMPION, ModelRegistry, model_name
from tasks.executor import SerialExecutor
from tasks.label_care.corrections import labels_by_id
from tests.browser import open_browser, visiting
from tests.conftest import Command

AUTO = (
    *("--candidates", "ml_knn,logistic_regression"),
    *("--set", "features.extractors=color_moments", "--set", "evaluation.folds=3"),
)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch, without_engine: None) -> None:
    monkeypatch.setattr("flows.runner.make_executor", lambda setting, home=None: SerialExecutor())


@pytest.fixture
def collection(tmp_path: Path) -> tuple[Path, dict[str, tuple[str, ...]], set[str]]:
    """Demo pictures whose labels are known, of which some are wrong and some hidden; truth and wrong ones."""
    cache = tmp_path / "drawn"
    found = open_source(SourceOptions("demo"), cache).read(cache)
    truth = {name: labels for name, labels in labels_by_id(found).items() if labels}
    folder, names = tmp_path / "photos", sorted(truth)
    folder.mkdir()
    paths = dict(zip(found.ids, found.paths or (), strict=True))
    rng = np.random.default_rng(0)
    hidden = set(rng.choice(names, 60, replace=False).tolist())
    wrong = set(rng.choice(sorted(set(names) - hidden), 15, replace=False).tolist())
    rows = []
    for name in names:
        path = paths[name]
        assert path
        shutil.copyfile(path, folder / Path(name).name)
        others = [label for label in found.label_names if label not in truth[name]]
        given = () if name in hidden else tuple(others[:2]) if name in wrong else truth[name]
        rows.append((Path(name).name, "|".join(given)))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("filename", "labels"), *rows])
    return folder, {Path(name).name: truth[name] for name in names}, {Path(name).name for name in wrong}


def decide_in_browser(page: Path, wrong: set[str], target: Path) -> int:
    """Accept the suggestion for wrong items and keep the labels of the others, by keyboard; save the file."""
    accepted = 0
    with open_browser() as context, visiting(context, page.as_uri()) as visit:
        for _ in range(30):
            is_wrong = visit.page.inner_text("#card h3") in wrong
            accepted += is_wrong
            visit.page.keyboard.press("y" if is_wrong else "n")
        with visit.page.expect_download() as download:
            visit.page.keyboard.press("s")
        shutil.copyfile(download.value.path(), target)
        assert visit.errors == []
    return accepted


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_the_whole_loop(
    command: Command, tmp_path: Path, collection: tuple[Path, dict[str, tuple[str, ...]], set[str]]
) -> None:
    photos, truth, wrong = collection
    first = command("auto", photos, *AUTO, "--json")
    assert first.code == 0, first.err
    assert json.loads(first.out)["gain"] is None
    assert command("annotate", photos, "--unlabeled").code == 0

    done = command("review", photos)
    assert done.code == 0, done.err
    assert "features[picture_signature]" in done.err
    accepted = decide_in_browser(tmp_path / "review" / "review.html", wrong, tmp_path / "corrections.csv")
    assert accepted >= 8  # more than half of the wrong items are among the first 30
    done = command("labels", "apply", "corrections.csv", photos)
    assert done.code == 0, done.err
    assert f"{accepted} items corrected" in done.out
    checked = json.loads(command("review", photos, "--json").out)
    assert checked["suspects_checked"] > 0

    done = command("next", photos, "--n", "25", "--json")
    assert done.code == 0, done.err
    queue = json.loads(done.out)
    assert len(queue["items"]) == 25
    assert queue["forecast"]["rows"] == len(truth) - 60
    table = tmp_path / "next" / "next.csv"
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["after"] = "|".join(truth[row["id"]])
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert "25 items labeled" in command("labels", "apply", table, photos).out

    second = command("auto", photos, *AUTO)
    assert second.code == 0, second.err
    assert "features                               fresh" in second.err
    log = [json.loads(line) for line in (photos / "labels.corrections.jsonl").read_text().splitlines()]
    assert len(log) == 30 + 25
    begun, ended = (
        {one["id"]: one[when] for one in rows} for rows, when in ((log[::-1], "before"), (log, "after"))
    )
    added = sum(bool(ended[name]) - bool(begun[name]) for name in ended)  # without labels: unlabeled
    relabeled = sum(bool(begun[name] and ended[name]) and begun[name] != ended[name] for name in ended)
    gained = next(line for line in second.out.splitlines() if line.startswith("gained"))
    assert gained.startswith(f"gained      +{added} labeled items, {relabeled} relabeled: macro F1")
    assert f"forecast for {added} more labels" in second.out
    home = tmp_path / ".labelscape"
    curve = LabelCurve(Tracker(default_uri(home), home=home), "photos")
    labels = len(truth) - 60
    assert [step for step, _ in curve.points("macro_f1")] == [labels, labels + added]
    assert [step for step, _ in curve.points("forecast_macro_f1")] == [labels + added]


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_the_printed_command_merges_labels_of_another_file(
    command: Command, tmp_path: Path, picture_folder: Path
) -> None:
    """The model was trained with `--set`; `review` and `next` are called without, the command has it."""
    labels = tmp_path / "my labels.csv"
    text = (picture_folder / "labels.csv").read_text().replace("|", ";")
    labels.write_text(text)
    (picture_folder / "labels.csv").unlink()
    place = ("--home", tmp_path / "other home")
    read = ("--set", f"source.labels={labels}", "--set", "source.label_separator=;")
    assert command("auto", picture_folder, *AUTO, *read, *place).code == 0
    (tmp_path / "corrections.csv").write_text("id,before,after,checked\np04.png,,red;blue,*\n")
    for words in (("review",), ("next", "--n", "3")):
        labels.write_text(text)
        done = command(*words, picture_folder, *place)
        assert done.code == 0, done.err
        printed = next(line for line in done.out.splitlines() if line.startswith("then"))
        name, *again = shlex.split(printed.removeprefix("then"))
        assert (name, "--home" in again) == ("labelscape", True)
        done = command(*again)
        assert done.code == 0, done.err
        assert "1 item labeled" in done.out
        assert [line for line in labels.read_text().splitlines() if line.startswith("p04.png")] in (
            ["p04.png,blue;red"],
            ["p04.png,red;blue"],
        )


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_kinds_of_queues_and_refusals(command: Command, tmp_path: Path, picture_folder: Path) -> None:
    assert command("auto", picture_folder, *AUTO).code == 0
    for kind in ("random", "closest", "confirm", "unlike"):
        done = command("next", picture_folder, "--n", "3", "--by", kind, "--json")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert len(found["items"]) == 3
        assert found["kind"] == kind
        assert found["forecast"]["more"] == 100
        assert all(one["why"] and one["given"] is None for one in found["items"])
        names = {Path(file).name for file in found["files"]}
        assert names == {"next.html", "next.csv", "label_studio.json", "label_studio.xml", "metadata.jsonl"}
    errors = json.loads(command("next", picture_folder, "--by", "errors", "--json").out)
    assert all(one["given"] for one in errors["items"])
    assert errors["forecast"] is None  # it adds no labels
    for bad in (("--n", "0"), ("--out", picture_folder / "queue")):
        assert command("next", picture_folder, *bad).code == 2
    assert command("review", picture_folder, "--n", "0").code == 2
    run = json.loads(command("store", "ls", "--runs", "--json").out)
    annotated = next(one for one in run if one["kind"] == "annotate")["id"]
    for form in ("csv", "hf", "label-studio", "fiftyone", "coco"):
        done = command("export", annotated, "--to", form, "--out", tmp_path / form, "--copy", "--json")
        assert done.code == 0, done.err
        made = json.loads(done.out)
        assert made["copied"] == 40
        read = json.loads(command("inspect", tmp_path / form, "--json").out)
        # Predictions stay predictions in Label Studio; csv and hf cannot say that an item has no label.
        lost = {"label-studio": made["predicted"], "csv": made["empty"], "hf": made["empty"]}
        assert read["labeled"] == made["given"] + made["predicted"] - lost.get(form, 0)
    assert command("export", "ffffffff", "--to", "csv").code == 2
    home = tmp_path / ".labelscape"
    registry = ModelRegistry(Tracker(default_uri(home), home=home))
    name = model_name(picture_folder.name)
    champion = registry.find(name, CHAMPION)
    assert champion
    registry.withdraw(name, CHAMPION)
    registry.register(name, champion.run_id, CHALLENGER, {})
    assert command("run", picture_folder, "--methods", "mlda", *AUTO[2:]).code == 0
    done = command("review", picture_folder)  # by the challenger, not by the newest run
    assert done.code == 0, done.err
    assert "not judged" not in done.out


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_only_a_format_that_joins_labels_refuses_the_separator(
    command: Command, tmp_path: Path, picture_folder: Path
) -> None:
    for number, file in enumerate(sorted(picture_folder.glob("*.png"))):
        place = picture_folder / ("red|pink" if number % 2 else "blue")
        place.mkdir(exist_ok=True)
        file.rename(place / file.name)
    (picture_folder / "labels.csv").unlink()
    done = command("run", picture_folder, "--until", "ingest")
    assert done.code == 0, done.err
    (run,) = json.loads(command("store", "ls", "--runs", "--json").out)
    for form in ("hf", "label-studio", "fiftyone", "coco"):
        done = command("export", run["id"], "--to", form, "--out", tmp_path / form)
        assert done.code == 0, done.err
    refused = command("export", run["id"], "--to", "csv", "--out", tmp_path / "csv")
    assert refused.code == 2
    assert "'red|pink' contains '|'" in refused.err


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_run_says_what_corrections_gained(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) + np.where(np.arange(120) % 2, 2, -2)[:, None]
    wrong, hidden = set(range(0, 40, 4)), set(range(100, 110))

    def write(wrong: set[int], hidden: set[int]) -> None:
        rows = ["id,a,b,class"]
        for row, (a, b) in enumerate(X):
            given = "" if row in hidden else "odd" if row % 2 != (row in wrong) else "even"
            rows.append(f"i{row},{a:.4f},{b:.4f},{given}")
        (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")

    def run(*words: str) -> str:
        settings = ("tracking.enabled=false", "evaluation.folds=5", "evaluation.baselines=['1nn']")
        given = [word for one in settings for word in ("--set", one)]
        done = command("run", tmp_path / "table.csv", "--methods", "mlda", *given, *words)
        assert done.code == 0, done.err
        return done.out

    write(wrong, hidden)
    assert "gained" not in run()
    write(set(), set())
    gain = json.loads(run("--json"))["gain"]
    assert (gain["labels"], gain["labels_before"], gain["relabeled"]) == (120, 110, 10)
    assert (gain["common"], gain["metric"]) == (110, "macro_f1")
    assert gain["new"] > gain["old"]
    assert gain["lead"]["mean"] == pytest.approx(gain["new"] - gain["old"])
    write(wrong, set())
    said = run()
    assert "gained     +0 labeled items, 10 relabeled: " in said
    assert "on the 120 items that both models know, by the present labels: " in said
    assert "noise (" in said
    (tmp_path / "table.csv").write_text((tmp_path / "table.csv").read_text().replace("a,b", "a,c"))
    assert "gained" not in run()  # other features, the same labels
