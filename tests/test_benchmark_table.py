"""The benchmark table: when a bar is reached, and how rows are formatted."""

import inspect
from importlib import import_module

import pytest

from tests.benchmarks.__main__ import NAMES, measure_here
from tests.benchmarks.table import markdown, peak_bytes, verdict


@pytest.mark.parametrize(
    ("bar", "measured", "peak", "expected"),
    [
        ("at most 3", "2.99 x", "", "yes"),
        ("at most 3", "3.0", "", "yes"),
        ("at most 3 x", "3.01 x", "", "NO"),
        ("below 3", "3.0", "", "NO"),
        ("at least 15x", "71 x", "", "yes"),
        ("at least .97", "0.969", "", "NO"),
        ("at least 15; at least 0.97", "71; .98", "", "yes"),
        ("at least 15; at least 0.97", "71; .96", "", "NO"),
        ("at least 15; at least 0.97", "71", "", "?"),
        ("at most 9", "7.0 to 8.0", "", "yes"),
        ("at most 9", "8.0 to 9.5", "", "NO"),
        ("at least 3", "2.9 to 8.0", "", "NO"),
        ("at most 3; peak below 3", "1.8", "2.6 x X (800 MB)", "yes"),
        ("at most 3; peak below 3", "1.8", "3.1 x X (950 MB)", "NO"),
        ("peak below 2 GB", "12 s", "917 MB", "yes"),
        ("peak below 2 GB", "12 s", "2,100 MB", "NO"),
        ("at most 1,000", "999.5", "", "yes"),
        ("flat", "1.0", "", "?"),
        ("peak below 3 GB", "not done after 1800 s", "210 MB", "NO"),
        ("", "failed with code 1, see above", "", "NO"),
        ("at least 3", "pyamg is not there", "", "?"),
    ],
)
def test_verdict_of_a_bar(bar, measured, peak, expected):
    assert verdict(("work", bar, measured, peak)) == expected


def test_rows_have_verdicts_at_full_size_only():
    rows = [("a | b", "at most 1", "2", "3 MB")]
    head = "| work | must reach | measured | peak memory | reached |\n| --- | --- | --- | --- | --- |\n"
    assert markdown(rows) == head + "| a \\| b | at most 1 | 2 | 3 MB | NO |"
    assert markdown(rows, judged=False).endswith("| 3 MB | - |")


def test_row_without_peak_memory_gets_that_of_the_process(monkeypatch, capsys):
    def measure():
        print("progress")  # noqa: T201
        return [("work", "at most 1", "1", ""), ("more", "at most 1", "1", "5 MB")]

    monkeypatch.setattr("tests.benchmarks.bench_features.measure", measure)
    first, second = measure_here("features", quick=True)
    assert float(first[3].removesuffix(" MB")) == pytest.approx(peak_bytes() / 1e6, abs=50)
    assert second[3] == "5 MB"
    assert capsys.readouterr() == ("", "progress\n")


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_a_quick_form_and_defaults(name):
    measure = import_module(f"tests.benchmarks.bench_{name}").measure
    parameters = inspect.signature(measure).parameters
    assert parameters["quick"].default is False
    assert all(one.default is not inspect.Parameter.empty for one in parameters.values())
