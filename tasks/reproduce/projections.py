"""Figures of discriminative projections."""

from typing import Any

from embedding_core.protocols.trial import Arm
from embedding_core.registry.catalog import PROJECTIONS_PAPER
from tasks.reproduce.experiment import BASELINES, Experiment

_DP = "discriminative_projections"
_MOST = 100
_COMMON: dict[str, Any] = {
    "paper": PROJECTIONS_PAPER,
    "protocol": "embedding_core.protocols.neighborhoods",
    "unlisted": r"K=([2-4]|[6-9])$|2-D, K=",
    "figure": "tasks.reproduce.neighborhood_figure",
}
_READING = (
    "hit rate: share of test rows with a row of their class among their K nearest test rows (all K and 2-D "
    "are in the file of cells), computed with the labels of the test rows; accuracy: 1NN from the labeled "
    "rows; mu = l/s and 10 neighbors in the graph; unit columns"
)


def _arms(n_classes: int) -> tuple[Arm, ...]:
    """The compared projections; CCA and LDA have one dimension fewer than there are classes."""
    most = {"n_components": n_classes - 1}
    return (
        Arm("DP", _DP, {"n_components": _MOST}),
        Arm("LPP", "lpp", {"n_components": _MOST}),
        Arm("CCA", "cca", most),
        Arm("LDA", "lda", most),
    )


USPS = Experiment(
    name="dp-usps",
    title="digits near their class, and positions of the labels",
    where="Figs. 2-4, 6",
    datasets=("usps",),
    arms=(
        *_arms(10),
        Arm("DP, mu = 1000", _DP, {"n_components": 2, "mu": 1000.0}, preprocessing=("raw",)),
        Arm("DP, mu = 0.001", _DP, {"n_components": 2, "mu": 0.001}, preprocessing=("raw",)),
        *BASELINES,
    ),
    full={"trials": 10, "labeled": 2000, "rows": 0, "dimensions": [2, 9, _MOST], "neighbors": 10, "seed": 0},
    quick={"trials": 2},
    note=f"2,000 labeled rows of 9,298; {_READING}",
    **_COMMON,
)

TDT2 = Experiment(
    name="dp-tdt2",
    title="documents near their topic",
    where="Fig. 5",
    datasets=("tdt2",),
    arms=(*_arms(4), *BASELINES),
    full={"trials": 3, "labeled": 1 / 3, "rows": 0, "dimensions": [2, 3, _MOST], "neighbors": 10, "seed": 0},
    quick={"trials": 2, "rows": 1500},
    preprocessing=("raw", "unit"),
    note=(
        "a third of each topic labeled, all 36,771 terms; a quick run uses 1,500 of 5,705 documents; "
        + _READING
    ),
    **_COMMON,
)

EXPERIMENTS = (USPS, TDT2)
