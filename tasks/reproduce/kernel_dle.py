"""Kernel DLE against the papers' methods and tuned baselines, under one protocol."""

from embedding_core.protocols.trial import Arm
from storage.reference.sets import reference_sets
from tasks.reproduce.experiment import TUNED_BASELINES, Experiment

_OURS = "labelscape, Kernel DLE"
_MSRC = {"sizes": [400, 191], "trials": 12}  # with 191 test images F1 varies by .02 between splits
_KERNEL_DLE = Arm("Kernel DLE", "kernel_dle")

SPLITS = Experiment(
    name="kernel-dle",
    title="multi-label classification, thresholds tuned inside training",
    paper=_OURS,
    where="our own",
    datasets=("music", "scene_split", "yeast", "mediamill_rows", "msrc_rows", "msrc_spaces"),
    arms=(
        _KERNEL_DLE,
        Arm("MLDA + tuned kNN", "mlda_knn"),
        Arm("DP + tuned kNN", "projections_knn"),
        *TUNED_BASELINES,
    ),
    protocol="embedding_core.protocols.tuned_split",
    full={"trials": 3, "seed": 0},
    quick={"trials": 1},
    overrides={
        "mediamill_rows": {"sizes": [1500, 500]},
        "msrc_rows": _MSRC,
        "msrc_spaces": {**_MSRC, "blocks": list(reference_sets()["msrc_spaces"].color_spaces)},
    },
    preprocessing=("zscore",),
    primary="zscore",
    note="Hamming loss at threshold 0.5; micro-F1 with one threshold and macro-F1 with one threshold per "
    "label, tuned on left-out scores of the training rows; LRAP. The first split is the official one if "
    "there is one. Photographs are described by the papers' moments of RGB bands (msrc_rows), and by the "
    "same moments in the color space that each method chooses by LRAP on folds of the training rows "
    "(msrc_spaces), with the share of splits that chose it",
)

FEW = Experiment(
    name="kernel-dle-few",
    title="accuracy with N labeled rows of each class",
    paper=_OURS,
    where="our own",
    datasets=("wine", "ionosphere", "sonar", "digits"),
    arms=(_KERNEL_DLE, Arm("LPSSVM", "lpssvm"), *TUNED_BASELINES),
    protocol="embedding_core.protocols.few_labels",
    full={"trials": 5, "labeled": [3, 5, 10], "neighbors": [], "metric": "accuracy", "seed": 0},
    quick={"trials": 2, "labeled": [5]},
    preprocessing=("zscore",),
    primary="zscore",
    figure="tasks.reproduce.few_labels_figure",
    note="methods that can use unlabeled rows see the other rows without their labels",
)

EXPERIMENTS = (SPLITS, FEW)
