"""Collections with links: the papers' methods, plain methods and Kernel DLE on citation networks."""

from embedding_core.protocols.linked import PUBLIC, SHUFFLE_LINKS
from embedding_core.protocols.trial import Arm
from tasks.reproduce.experiment import Experiment

ARMS = (
    Arm("Kernel DLE with links", "kernel_dle", {"links": "loo"}),
    Arm("Kernel DLE, propagated only", "kernel_dle", {"links": "only"}),
    Arm("Kernel DLE, shuffled links", "kernel_dle", {"links": "loo", SHUFFLE_LINKS: True}),
    Arm("Kernel DLE, links ignored", "kernel_dle"),
    Arm("Kernel DLE, graph penalty", "kernel_dle", {"graph_weight": "loo"}),
    Arm("DLE, balanced", "dle", {"objective": "balanced"}),
    Arm("MLDA", "mlda"),
    Arm("DP", "discriminative_projections"),
    Arm("SLE-ML", "sle_ml"),
    Arm("LPSSVM", "lpssvm"),
    Arm("LapRLS", "laprls"),
    Arm("LR on words", "logistic_regression", role="baseline"),
    Arm("LR, smoothed words", "smoothed_logistic_regression", role="baseline"),
    Arm("HF", "harmonic_functions", role="baseline"),
    Arm("CF", "local_global_consistency", role="baseline"),
)

LINKED = Experiment(
    name="linked-collections",
    title="papers with words and citations, 20 labeled papers per class",
    paper="labelscape, Kernel DLE with links",
    where="our own",
    datasets=("cora", "citeseer"),
    arms=ARMS,
    protocol="embedding_core.protocols.linked",
    full={"trials": 10, "labeled": 20, "test": 1000, "seed": 0},
    quick={"trials": 2},
    preprocessing=("unit",),
    primary="unit",
    note="accuracy on 1,000 test papers: N=20 over random splits, and the public Planetoid split "
    f"({PUBLIC}). Methods that use a graph take the citations as their graph; words and citations of all "
    "papers are seen, labels of the training papers only. Shuffled: the same citations between papers "
    "exchanged at random. SLE-ML, DLE, MLDA and DP are read off by 1NN. Published networks tune on 500 "
    "further labeled papers, which no method here uses; a graph convolutional network is not re-run, because "
    "torch is not a dependency",
)

EXPERIMENTS = (LINKED,)
