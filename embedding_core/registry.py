"""The methods that can be compared, as data: what each one is, needs and costs.

Nothing heavy is imported here; `Method.build` imports the estimator when it is wanted. A new method is one
more entry of `METHODS`. Its estimator follows scikit-learn's contract and one of two roles:

projection
    `fit(X, Y)`, `transform(X)`, and `embedding_` (n, r), the coordinates of the rows of the fit. Neighbours
    in these coordinates classify.
classifier
    `fit(X, Y)` and `predict_scores(X)` (m, K) in [0, 1], where more than one half means yes (`predict` says
    the same in 0/1).

`fit` takes `affinity=None` besides where `uses_graph`. A method that is not `inductive` knows the rows of its
fit alone: a projection then needs no `transform`, and a classifier leaves the scores of those rows in
`transduction_scores_` (n, K) in place of `predict_scores`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from embedding_core.errors import InvalidInput
from embedding_core.method import Method, did_you_mean

_DLE_PAPER = "H. Wang, H. Huang, C. Ding: Discriminant Laplacian Embedding"
_PROJECTIONS_PAPER = (
    "C. Wang, S. Mahadevan: Jointly Learning Data-Dependent Label and Locality-Preserving Projections"
)
_LPSSVM_PAPER = (
    "W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui: Semantic Concept Classification by Joint Semi-supervised "
    "Learning of Feature Subspaces and Support Vector Machines"
)
_MLDA_PAPER = "H. Wang, C. Ding, H. Huang: Multi-label Linear Discriminant Analysis"


def _baseline(name: str, title: str, attribute: str, cost: str, **defaults: Any) -> Method:
    return Method(
        name=name,
        title=title,
        paper="",
        equations="",
        module="embedding_core.baselines",
        attribute=attribute,
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=False,
        cost=cost,
        baseline=True,
        defaults=defaults,
        own_scaling=True,
    )


_ENTRIES = (
    Method(
        name="mlda",
        title="MLDA",
        paper=_MLDA_PAPER,
        equations="Eq. 6-20",
        module="embedding_core.discriminant.mlda",
        attribute="MLDA",
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=False,
        cost="n p min(n, p) + n p K",
    ),
    Method(
        name="multilabel_dle",
        title="Multi-label DLE",
        paper=_DLE_PAPER,
        equations="Eq. 12-19",
        module="embedding_core.discriminant.dle",
        attribute="MultiLabelDLE",
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=True,
        cost="n p min(n, p) + edges p + n p K",
    ),
    Method(
        name="dle",
        title="DLE",
        paper=_DLE_PAPER,
        equations="Eq. 1-11, Table 1",
        module="embedding_core.discriminant.dle",
        attribute="DLE",
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=False,
        uses_graph=True,
        cost="n p min(n, p) + edges p + n p K",
    ),
    Method(
        name="discriminative_projections",
        title="Discriminative projections",
        paper=_PROJECTIONS_PAPER,
        equations="Sections 3.2-3.4, Theorem 1",
        module="embedding_core.discriminant.projections",
        attribute="DiscriminativeProjections",
        role="projection",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=True,
        cost="n p min(n, p) + edges p + min(n, p)^3",
    ),
    Method(
        name="lpssvm",
        title="LPSSVM",
        paper=_LPSSVM_PAPER,
        equations="Eq. 5-12, Fig. 1",
        module="embedding_core.margin.lpssvm",
        attribute="LPSSVM",
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=True,
        cost="n m^2 + m^3 + K m^2, m landmarks",
        defaults={"landmarks": "auto"},
    ),
    _baseline("1nn", "1NN, input as given", "InputNeighbors", "n p a query", scale="none"),
    _baseline("1nn_zscore", "1NN, z-scored input", "InputNeighbors", "n p a query", scale="zscore"),
    _baseline("svm", "Scaled SVM", "ScaledSVM", "n^2 p K"),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ENTRIES})


def get_method(name: str) -> Method:
    """Look a method up by name; an unknown name raises InvalidInput with near matches and the whole list."""
    try:
        return METHODS[name]
    except KeyError:
        known = list(METHODS)
        raise InvalidInput(
            f"method {name!r} is not known.{did_you_mean(name, known)} Methods: {', '.join(known)}."
        ) from None
