"""Refreshes that keep the loop going: answers arrive, are merged, and a new queue is written."""

import csv
from pathlib import Path

import pytest

from flows.commands.refresh import refresh_text
from flows.deployed_places import PLACES_VARIABLE, check_places, digest_places
from storage.errors import ConfigError
from tests.conftest import local_config
from tests.flows.test_refresh import SETTINGS, Refreshes, right, write_table


def read_queue(page: Path) -> list[dict[str, str]]:
    with page.with_name("next.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def write_answers(file: Path, rows: list[dict[str, str]]) -> None:
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_a_nightly_refresh_takes_answers_in_and_writes_a_new_queue(tmp_path: Path) -> None:
    table, answers = tmp_path / "table.csv", tmp_path / "answers.csv"
    write_table(table, ["even" if row in (1, 3, 5) else name for row, name in enumerate(right(40))])
    settings = (*SETTINGS, "tracking.enabled=true", "schedule.queue=6", f"schedule.answers={answers}")
    refreshes = Refreshes(local_config(table, tmp_path / "home", *settings))
    first = refreshes()
    assert (first.merged, first.gained) == ("", ())
    page = first.queue[0]
    assert page == next((tmp_path / "home" / "queues").glob("table.csv-*")) / "next.html"
    assert f"Save the file as {answers}; the next refresh merges it." in page.read_text()
    asked = read_queue(page)
    assert len(asked) == 6
    assert all(int(row["id"][1:]) >= 40 for row in asked)

    for row in asked:
        row["after"] = right(60)[int(row["id"][1:])]
    fixed = [{**asked[0], "id": f"i{row}", "before": "even", "after": "odd"} for row in (1, 3, 5)]
    write_answers(answers, asked + fixed)
    second = refreshes()
    assert second.merged == f"3 items corrected, 6 items labeled, 0 items confirmed from {answers}"
    assert second.gained[0].startswith("+6 labeled items, 3 relabeled: macro F1 ")
    assert "noise (" in second.gained[1]
    new = read_queue(second.queue[0])
    assert len(new) == 6
    assert not {row["id"] for row in new} & {row["id"] for row in asked}
    said = "\n".join(str(line) for line in refresh_text(refreshes.config, second))
    assert f"merged     {second.merged}" in said
    assert f"next       {page}" in said
    again = refreshes()
    assert (again.cached, again.merged) == (True, "")

    other = "odd" if asked[0]["after"] == "even" else "even"
    write_answers(answers, [{**asked[0], "before": "", "after": other}])  # it has a label by now
    refused = refreshes()
    assert refused.cached
    assert refused.notes[0].startswith("answers were not merged: ")
    assert refreshes().notes == refused.notes, "it is tried again until somebody fixes the file"
    write_table(table, right(60))
    done = refreshes()
    assert done.queue == ()
    assert any("no queue was written: all 60 items" in note for note in done.notes)


def test_a_deployed_run_merges_answers_only_into_the_deployed_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.csv"
    write_table(table, right(5), 6)
    config = local_config(table, tmp_path / "home", f"schedule.answers={tmp_path / 'answers.csv'}")
    monkeypatch.setenv(PLACES_VARIABLE, digest_places(config))
    check_places(config)
    other = local_config(tmp_path, tmp_path / "home", f"schedule.answers={tmp_path / 'answers.csv'}")
    with pytest.raises(ConfigError, match="another answers than the deployment"):
        check_places(other)
