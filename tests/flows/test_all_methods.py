"""A run over all methods that accept the labels: one table, no failure, only warnings with advice."""

import re
from pathlib import Path

import pytest

from embedding_core.registry import METHODS
from tests.conftest import UNTRACKED, Command

pytestmark = pytest.mark.slow

ADVICE = re.compile(r"(Raise|Label|Link|Scale|Give|lower|larger|may join)", re.IGNORECASE)
BUILT_IN = ("wine", "iris")


def check_run(command: Command, source: Path | str, single_label: bool) -> list[str]:
    """Compare all methods in two folds and return the warnings of the run."""
    done = command("run", source, "--methods", "all", "--set", "evaluation.folds=2", *UNTRACKED)
    assert done.code == 0, done.err
    rows = [re.split(r"  +", line)[0] for line in done.out.splitlines() if " ± " in line]
    listed = {re.sub(r", \d+NN$", "", row) for row in rows}
    fitting = {method.title for method in METHODS.values() if method.takes(single_label)}
    assert {re.sub(r" \(baseline\)$", "", title) for title in listed} >= fitting
    assert done.out.count("macro F1 ↑") == 1
    assert "nan" not in done.out.lower().split()
    reported = [line.strip() for line in done.err.splitlines() if line.strip().startswith("warning:")]
    assert all(ADVICE.search(line) for line in reported), reported
    return reported


@pytest.mark.parametrize("source", BUILT_IN)
def test_all_methods_for_one_class_per_item(source: str, command: Command, without_engine: None) -> None:
    reported = check_run(command, source, single_label=True)
    assert source == "iris" or not reported


@pytest.mark.parametrize("name", ["emotions"])
def test_all_methods_for_several_labels(
    name: str, command: Command, without_engine: None, shared_data: Path
) -> None:
    reported = check_run(command, shared_data / name / f"{name}.parquet", single_label=False)
    assert len(reported) <= 1  # one item of the raw features is so far away that its links weigh 1e-33
