"""Manifold regularization, and projections followed by a machine: what LPSSVM is compared with."""

from embedding_core.registry.method import Method

_BELKIN = (
    "M. Belkin, P. Niyogi, V. Sindhwani: Manifold Regularization: A Geometric Framework for Learning from "
    "Labeled and Unlabeled Examples"
)


def _margin(
    name: str, title: str, attribute: str, paper: str, equations: str, module: str, cost: str
) -> Method:
    return Method(
        name=name,
        title=title,
        paper=paper,
        equations=equations,
        module=f"embedding_core.margin.{module}",
        attribute=attribute,
        role="classifier",
        inductive=True,
        single_label=True,
        multi_label=True,
        uses_graph=True,
        cost=cost,
        # one width of the kernel serves all features: they must be on one scale
        defaults={"input_scale": "zscore", "landmarks": "auto"},
        own_scaling=True,
    )


ENTRIES = (
    _margin(
        "lapsvm",
        "Laplacian SVM",
        "LapSVM",
        _BELKIN,
        "Eq. 4 of the LPSSVM paper, hinge loss",
        "lapsvm",
        "n m^2 + edges m + l^2 K, m landmarks, l labeled",
    ),
    _margin(
        "laprls",
        "Laplacian regularized least squares",
        "LapRLS",
        _BELKIN,
        "Eq. 4 of the LPSSVM paper, squared loss",
        "laprls",
        "n m^2 + edges m, m landmarks",
    ),
    _margin(
        "lpp_svm",
        "LPP + SVM",
        "LPPSVM",
        "X. He, P. Niyogi: Locality Preserving Projections",
        "Eq. 3 and 1 of the LPSSVM paper",
        "lpp_svm",
        "n m^2 + edges m + l^2 K, m landmarks, l labeled",
    ),
)
