"""Features of images compared under one protocol, alone and joined."""

from embedding_core.protocols.trial import Arm
from tasks.reproduce.experiment import RBF_SVC, Experiment

MSRC = Experiment(
    name="msrc-features",
    title="features of photographs, alone and joined",
    paper="labelscape, features of images",
    where="our own",
    datasets=(
        "msrc_rows",
        "msrc_auto",
        "msrc_gabor",
        "msrc_edges",
        "msrc_visual",
        "msrc_words",
        "msrc_deep",
        "msrc_joined",
    ),
    arms=(Arm("Kernel DLE", "kernel_dle"), RBF_SVC),
    protocol="embedding_core.protocols.tuned_split",
    full={"trials": 3, "seed": 0, "sizes": [400, 191]},
    quick={"trials": 1},
    preprocessing=("zscore",),
    primary="zscore",
    note="MSRC v2, 591 photographs and 22 labels, random splits of 400 and 191, z-scored by the training "
    "rows; Hamming loss at threshold 0.5; micro-F1 with one threshold and macro-F1 with one threshold per "
    "label, tuned on left-out scores of the training rows; LRAP. color_space auto and the words of bow_sift "
    "are learned from the training rows. Joined: color_moments, gabor, edge_histogram, bow_sift and "
    "efficientnet_lite0, each scaled on its own to the same variance",
)

EXPERIMENTS = (MSRC,)
