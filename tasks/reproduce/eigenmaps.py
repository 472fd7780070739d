"""Figures of SLE-ML: classes in the plane, compared with shuffled labels."""

from embedding_core.protocols.trial import Arm
from embedding_core.registry.catalog import SLE_ML_PAPER
from tasks.reproduce.experiment import BASELINES, Experiment

BALANCES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0)
_PLANE = {"n_components": 2}


def title_of(balance: float) -> str:
    """Title of SLE-ML with a given λ."""
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
    title="classes in the plane, and how much of the structure is real",
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
        "k = 1.5 times the mean class size; agreement: probability that the nearest row in the plane has the "
        "same labels, which with shuffled labels shows how much structure the method itself creates; "
        "accuracy: hidden labels predicted by the nearest labeled row in the plane; between: share of label "
        "pairs for which the center of the rows with both labels is between the centers of the two labels; "
        "single pairs are in the file of cells; Torus and Clusdat have the paper's sizes but our own shapes, "
        "with noise a quarter as wide as the shape, because noise of full width hid all clusters of Clusdat"
    ),
)

EXPERIMENTS = (FIGS,)
