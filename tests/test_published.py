"""The printed numbers: well-formed, named after experiments, and those of the papers' own text."""

import re
from pathlib import Path

import pytest

from embedding_core.protocols.stepwise import OWN_NAMES
from embedding_core.registry import METHODS
from storage.published import (
    find_figure,
    find_published,
    published_cells,
    published_claims,
    read_published,
)
from storage.reference_sets import reference_sets
from tasks.reproduce.catalog import experiments
from tasks.reproduce.claims import sides_of
from tests.conftest import REPOSITORY

# Words that protocols know beside the methods of the registry.
OWN_WORDS = {"ceiling", "correlation", "lone"}


@pytest.fixture(scope="session")
def papers() -> Path:
    folder = REPOSITORY.parent / "shared" / "seeds"
    if not folder.is_dir():
        pytest.skip(f"the papers' texts are not at {folder}")
    return folder


def paper_text(folder: Path, number: str) -> str:
    (file,) = folder.glob(f"{number}_*.txt")
    return file.read_text(encoding="utf-8")


def test_printed_numbers_are_fractions_each_named_once():
    cells = read_published()
    names = [(c.experiment, c.dataset, c.method, c.metric, c.condition) for c in cells]
    assert len(names) == len(set(names)) > 200
    assert all(0 < cell.value <= 1 for cell in cells if cell.value is not None)
    assert all(cell.value is not None for cell in cells if not cell.status)
    assert {cell.status for cell in cells} == {"", "unavailable", "figure", "claim"}
    assert all(cell.remark for cell in cells if cell.status)


def test_every_printed_number_has_an_experiment_that_measures_it():
    for experiment in experiments().values():
        for cell in published_cells(experiment.name):
            assert cell.method in {arm.title for arm in experiment.arms}
            assert cell.table
            if cell.status != "unavailable":
                assert cell.dataset in experiment.datasets
            elif cell.value is not None:
                assert cell.dataset not in experiment.datasets


def test_every_claim_and_figure_is_of_measured_methods_and_sets():
    for experiment in experiments().values():
        titles = {arm.title for arm in experiment.arms}
        for claim in published_claims(experiment.name):
            left, right, _ = sides_of(claim)
            assert {left.method, right.method} <= titles
            assert left != right
            assert claim.dataset in experiment.datasets
    for name in ("dp-usps", "dp-tdt2", "sle-figs", "lpssvm-toy", "lpssvm-uci"):
        assert all(find_figure(name, dataset) for dataset in experiments()[name].datasets)


def test_experiments_name_sets_and_methods_that_exist():
    for experiment in experiments().values():
        assert set(experiment.datasets) <= set(reference_sets())
        assert {arm.method for arm in experiment.arms} <= set(METHODS) | OWN_WORDS
        titles = [arm.title for arm in experiment.arms]
        assert len(titles) == len(set(titles))
        assert not experiment.proposed or experiment.proposed in titles
        for arm in experiment.arms:
            if arm.method in METHODS:
                own = {name: value for name, value in arm.params.items() if name not in OWN_NAMES}
                METHODS[arm.method].build(**own)


def test_a_cell_without_a_condition_counts_for_each():
    printed = find_published("dle-table4", "soybean", "DLE", "accuracy", "5 % more, all wrong")
    assert printed is not None and printed.value == pytest.approx(0.851)
    assert find_published("dle-table4", "soybean", "DLE", "error", "") is None


def test_table_3_is_the_papers(papers):
    text = paper_text(papers, "000")
    table = text[text.index("Table 3:") :]
    for row in ("soybean", "housing", "protein", "wine", "balance", "iris"):
        printed = re.search(rf"^{row}((?:\t[\d.]+){{7}})$", table, re.MULTILINE)
        numbers = [float(number) / 100 for number in printed[1].split()]
        ours = [cell.value for cell in published_cells("dle-table3") if cell.dataset == row]
        assert ours == pytest.approx(numbers)


def test_table_5_is_the_papers(papers):
    text = paper_text(papers, "000")
    for method in ("MLGF", "SMSE", "MLLS", "MCGF", "Multi-label DLE"):
        printed = re.search(rf"^{method}\t([\d.]+)%\t([\d.]+)%\t([\d.]+)%$", text, re.MULTILINE)
        numbers = [float(number) / 100 for number in printed.groups()]
        ours = [cell.value for cell in published_cells("dle-table5") if cell.method == method]
        assert ours == pytest.approx(numbers)


def test_music_rows_of_mlda_are_the_papers(papers):
    text = paper_text(papers, "002")
    table = text[text.index("| Music emotion") : text.index("| Yahoo (Science)")]
    numbers = sorted(float(number) for number in re.findall(r"0\.\d{3}", table))
    ours = sorted(cell.value for cell in published_cells("mlda-table1") if cell.dataset == "music")
    assert len(ours) == 24
    assert ours == pytest.approx(numbers)


def test_caltech_rows_of_lpssvm_are_the_papers(papers):
    text = paper_text(papers, "004")
    table = text[text.index("(a) Recognition rates") : text.index("Table 1. Recognition rates")]
    numbers = [float(number) / 100 for number in re.findall(r"\$([\d.]+)\(", table)]
    ours = [cell.value for cell in published_cells("lpssvm-uci") if cell.dataset == "caltech101"]
    assert len(ours) == 10
    assert ours == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("number", "experiment"),
    [
        ("001", "dp-usps"),
        ("001", "dp-tdt2"),
        ("003", "sle-figs"),
        ("004", "lpssvm-toy"),
        ("004", "lpssvm-uci"),
    ],
)
def test_claims_quote_the_papers(papers, number, experiment):
    """Spaces and signs aside: the texts have formulas and broken lines."""

    def letters(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    paper = letters(paper_text(papers, number))
    for claim in published_claims(experiment):
        assert letters(claim.remark) in paper, claim.remark
