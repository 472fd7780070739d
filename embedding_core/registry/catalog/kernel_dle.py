"""What the papers' family comes to with a kernel, every choice made inside the training labels."""

from embedding_core.registry.catalog.sources import DLE_PAPER
from embedding_core.registry.method import Method

ENTRIES = (
    Method(
        name="kernel_dle",
        title="Kernel DLE",
        paper=f"after {DLE_PAPER}",
        equations="the objective of DLE in a kernel's feature space, leave-one-out rows, see the class",
        module="embedding_core.kernel_dle.classifier",
        attribute="KernelDLEClassifier",
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        # unlabeled rows count where the graph does: with few labels, or where graph_weight is not 0
        uses_graph=True,
        cost="n^2 p + n^3 + n^2 K; n m p + n m^2 + m^3 with m landmarks",
        own_scaling=True,
    ),
)
