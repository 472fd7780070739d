"""Figures of SLE-ML: pictures of classes, each beside what shuffled labels give."""

from embedding_core.protocols.trial import Arm
from embedding_core.registry.catalog import SLE_ML_PAPER
from tasks.reproduce.experiment import BASELINES, Experiment

BALANCES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0)
_PLANE = {"n_components": 2}


def title_of(balance: float) -> str:
    """SLE-ML with this λ."""
    return f"SLE-ML {balance:.1f}"


OTHERS = (
    Arm("LE", "laplacian_eigenmaps", _PLANE),
    # λ = 1/2 shows no classes; the paper's was "chosen so as to produce almost the best results".
    Arm("CCDR", "ccdr", {**_PLANE, "balance": 1e-3}),
    Arm("CS", "constraint_score", _PLANE),
    Arm("S-LapEig", "slapeig", _PLANE),
    Arm("S-LE", "sle", _PLANE),
)

FIGS = Experiment(
    name="sle-figs",
    title="classes in the plane, and how much of it is there",
    paper=SLE_ML_PAPER,
    where="Figs. 1-5",
    datasets=("digits", "torus", "clusdat", "scene"),
    arms=(
        *(Arm(title_of(balance), "sle_ml", {**_PLANE, "balance": balance}) for balance in BALANCES),
        *OTHERS,
        *BASELINES,
    ),
    protocol="embedding_core.protocols.separability",
    full={"trials": 5, "min_rows": 5, "seed": 0},
    quick={"trials": 1},
    preprocessing=("raw",),
    unlisted=r", (?!FallFoliage \+ Field)\w+ \+ ",
    figure="tasks.reproduce.separability_figure",
    note=(
        "k = 1.5 times the mean class size; agreement: chance that the nearest row in the plane has the same "
        "labels, with shuffled ones it shows what a picture makes up; accuracy: hidden labels named by the "
        "nearest labeled row of the plane; between: share of the sets of two labels whose center lies "
        "between those of the two; single sets are in the file of cells; Torus and Clusdat have the paper's "
        "sizes, their shapes are ours, and garbage is a quarter as wide as the shape: a first try at full "
        "width left none of the clusters of Clusdat to see"
    ),
)

EXPERIMENTS = (FIGS,)
