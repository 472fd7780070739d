"""The published numbers: well-formed, each measured by an experiment, and equal to the papers' text."""

import re
from pathlib import Path

import pytest

from embedding_core.protocols.linked import SHUFFLE_LINKS
from embedding_core.protocols.stepwise import OWN_NAMES
from embedding_core.protocols.two_classes import FITTED, HELD_OUT, SHUFFLED
from embedding_core.registry import METHODS
from storage.reference.published import (
    find_figure,
    find_published,
    published_cells,
    published_claims,
    read_published,
)
from storage.reference.sets import reference_sets
from tasks.reproduce.catalog import experiments
from tasks.reproduce.claims import EXISTS, sides_of
from tests.conftest import REPOSITORY

# Words that protocols know beside the methods of the registry.
OWN_WORDS = {"ceiling", "chosen inside training", "correlation", "lone", "nearest row"}
STATUSES = {"ambiguous", "licensed", "unavailable", "figure", "claim"}


def can_be_had(name: str) -> bool:
    """Whether the set is built in, or its file is known by a checksum."""
    known = reference_sets()[name]
    return bool(known.builtin or known.sha256)


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
    assert {cell.status for cell in cells} == {"", *STATUSES}
    assert all(cell.remark for cell in cells if cell.status)


def test_every_printed_number_has_an_experiment_that_measures_it():
    for experiment in experiments().values():
        for cell in published_cells(experiment.name):
            measured = cell.method in {arm.title for arm in experiment.arms}
            assert measured or cell.status == "unavailable"
            assert cell.table
            if cell.status != "unavailable":
                assert cell.dataset in experiment.datasets
                assert (cell.status == "licensed") == (not can_be_had(cell.dataset))
            elif cell.value is not None:
                assert not (measured and cell.dataset in experiment.datasets)


def test_every_claim_and_figure_is_of_measured_methods_and_sets():
    for experiment in experiments().values():
        titles = {arm.title for arm in experiment.arms}
        for claim in published_claims(experiment.name):
            left, right, sign = sides_of(claim)
            assert {left.method, right.method} <= titles
            assert (left == right) == (sign == EXISTS)
            assert claim.dataset in experiment.datasets
    for name in ("dle-fig2", "dp-usps", "dp-tdt2", "sle-figs", "lpssvm-toy", "lpssvm-uci", "mlda-fig5"):
        assert all(find_figure(name, dataset, "any") for dataset in experiments()[name].datasets)


def test_only_content_of_a_figure_is_attributed_to_it():
    """Held-out rows, shuffled labels and the labels of music are ours."""
    assert find_figure("mlda-fig4", "music", FITTED)
    assert not find_figure("mlda-fig4", "music", HELD_OUT)
    assert not find_figure("mlda-fig4", "music", SHUFFLED)
    assert not find_figure("mlda-fig3", "music", "")
    (claim,) = published_claims("mlda-fig4")
    left, _, _ = sides_of(claim)
    assert [left.rest_of(condition) for condition in (FITTED, HELD_OUT, SHUFFLED)] == ["", None, None]


def test_experiments_name_sets_and_methods_that_exist():
    for experiment in experiments().values():
        assert set(experiment.datasets) <= set(reference_sets())
        assert {arm.method for arm in experiment.arms} <= set(METHODS) | OWN_WORDS
        titles = [arm.title for arm in experiment.arms]
        assert len(titles) == len(set(titles))
        for arm in experiment.arms:
            if arm.method in METHODS:
                own = {
                    name: value
                    for name, value in arm.params.items()
                    if name not in (*OWN_NAMES, SHUFFLE_LINKS)
                }
                METHODS[arm.method].build(**own)


def test_a_cell_without_a_condition_matches_every_condition():
    printed = find_published("dle-table4", "soybean", "DLE", "accuracy", "5 % more, all wrong")
    assert printed is not None and printed.value == pytest.approx(0.851)
    assert find_published("dle-table4", "soybean", "DLE", "error", "") is None


def test_table_3_matches_the_paper(papers):
    text = paper_text(papers, "000")
    table = text[text.index("Table 3:") :]
    for row in ("soybean", "housing", "protein", "wine", "balance", "iris"):
        printed = re.search(rf"^{row}((?:\t[\d.]+){{7}})$", table, re.MULTILINE)
        numbers = [float(number) / 100 for number in printed[1].split()]
        ours = [cell.value for cell in published_cells("dle-table3") if cell.dataset == row]
        assert ours == pytest.approx(numbers)


def test_table_4_matches_the_paper(papers):
    text = paper_text(papers, "000")
    table = text[text.index("Table 4:") :]
    for row in ("soybean", "housing", "protein", "wine", "balance", "iris"):
        printed = re.search(rf"^{row}((?:\t[\d.]+%){{5}})\t*$", table, re.MULTILINE)
        numbers = [float(number) / 100 for number in re.findall(r"[\d.]+", printed[1])]
        ours = [cell.value for cell in published_cells("dle-table4") if cell.dataset == row]
        assert ours == pytest.approx(numbers)


def test_table_5_matches_the_paper(papers):
    text = paper_text(papers, "000")
    for method in ("MLGF", "SMSE", "MLLS", "MCGF", "Multi-label DLE"):
        printed = re.search(rf"^{method}\t([\d.]+)%\t([\d.]+)%\t([\d.]+)%$", text, re.MULTILINE)
        numbers = [float(number) / 100 for number in printed.groups()]
        ours = [cell.value for cell in published_cells("dle-table5") if cell.method == method]
        assert ours == pytest.approx(numbers)


MLDA_METHODS = ("LDA-C1", "SVM", "MLSI", "MDDM", "MLLS", "MLDA")
MLDA_ROWS = ("macro_precision", "macro_f1", "micro_precision", "micro_f1")
MLDA_SETS = {
    "trecvid": "TREC05",
    "msrc": "MSRC",
    "mediamill": "MediaMill",
    "music": "Music emotion",
    "yahoo": "Yahoo (Science)",
    "msrc_sift": "MSRC (SIFT)",
}


def mlda_table_1(text):
    """Its numbers by set, metric and method. A line of the text contains one row of the table, or two.

    The last six columns are the methods'; each has the numbers of the line's rows from top to bottom. One is
    printed without its point.
    """
    table = text[text.index("| TREC05") : text.index("Table 1. Performance")]
    names, found = iter(MLDA_SETS.items()), {}
    for line in table.strip().splitlines():
        columns = [column.strip() for column in line.strip().strip("|").split("|")]
        if columns[0]:
            dataset, printed = next(names)
            assert columns[0] == printed
            metrics = iter(MLDA_ROWS)
        numbers = [re.findall(r"\b0\.?\d{3}\b", column) for column in columns[-6:]]
        for row in zip(*numbers, strict=True):
            metric = next(metrics)
            for method, number in zip(MLDA_METHODS, row, strict=True):
                found[dataset, metric, method] = float(number.replace("0301", "0.301"))
    return found


def test_table_1_of_mlda_matches_the_paper(papers):
    ours = {(c.dataset, c.metric, c.method): c.value for c in published_cells("mlda-table1")}
    assert len(ours) == 144
    assert ours == pytest.approx(mlda_table_1(paper_text(papers, "002")))


def test_a_corrected_number_has_a_remark():
    cell = find_published("mlda-table1", "mediamill", "MLSI", "macro_f1", "")
    assert cell.value == 0.301
    assert cell.remark.endswith('printed "0301"')


def test_caltech_rows_of_lpssvm_match_the_paper(papers):
    text = paper_text(papers, "004")
    table = text[text.index("(a) Recognition rates") : text.index("Table 1. Recognition rates")]
    numbers = [float(number) / 100 for number in re.findall(r"\$([\d.]+)\(", table)]
    ours = [cell.value for cell in published_cells("lpssvm-caltech") if cell.value is not None]
    assert len(ours) == 10
    assert ours == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("number", "experiment"),
    [
        ("002", "mlda-fig4"),
        ("002", "mlda-fig5"),
        ("001", "dp-usps"),
        ("001", "dp-tdt2"),
        ("003", "sle-figs"),
        ("004", "lpssvm-toy"),
        ("004", "lpssvm-uci"),
    ],
)
def test_claims_quote_the_papers(papers, number, experiment):
    """Spaces and signs are ignored: the texts have formulas and line breaks."""

    def letters(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    paper = letters(paper_text(papers, number))
    claims = published_claims(experiment)
    assert claims
    for claim in claims:
        assert letters(claim.remark) in paper, claim.remark
