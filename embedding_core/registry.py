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

import difflib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from embedding_core.errors import InvalidInput

Role = Literal["projection", "classifier"]


def _did_you_mean(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True)
class Method:
    """One method of the comparison.

    Parameters
    ----------
    name, title : str
        The name for configurations, the title for readers.
    paper, equations : str
        Where it is from, and which equations it implements; empty for plain baselines.
    module, attribute : str
        Where its estimator class is.
    role : {"projection", "classifier"}
        See the module's text.
    inductive : bool
        It can place or classify rows that were not in its fit.
    single_label, multi_label : bool
        It takes labels of which each row has exactly one; of which rows have any number.
    uses_graph : bool
        It takes an affinity between rows, and so sees unlabelled rows too.
    cost : str
        How time grows with n rows, p features, K labels.
    baseline : bool
        A plain method that is shown beside the others.
    defaults : mapping
        Parameters that differ from the estimator's own defaults.
    own_scaling : bool
        It scales its input itself, or is meant to see the input as it is given: a scaling chosen for the
        other methods doesn't apply.
    """

    name: str
    title: str
    paper: str
    equations: str
    module: str
    attribute: str
    role: Role
    inductive: bool
    single_label: bool
    multi_label: bool
    uses_graph: bool
    cost: str
    baseline: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_scaling: bool = False

    @property
    def sees_all_rows(self) -> bool:
        """Whether its fit takes the unlabelled rows too (always without their labels)."""
        return self.uses_graph or not self.inductive

    @property
    def type_name(self) -> str:
        """Full name of the estimator's class."""
        return f"{self.module}.{self.attribute}"

    def input_scale(self, requested: str) -> str:
        """Scaling to apply in front of it when `requested` was chosen for the comparison."""
        return "none" if self.own_scaling else requested

    def estimator_class(self) -> type[Any]:
        """Import the estimator's class."""
        return getattr(importlib.import_module(self.module), self.attribute)

    def parameters(self) -> dict[str, Any]:
        """Legal parameters with their defaults, this entry's before the estimator's own."""
        signature = inspect.signature(self.estimator_class())
        own = {name: parameter.default for name, parameter in signature.parameters.items()}
        return own | dict(self.defaults)

    def build(self, **params: Any) -> Any:
        """Make an unfitted estimator; unknown parameters raise InvalidInput with the legal ones."""
        legal = self.parameters()
        for name in params:
            if name not in legal:
                raise InvalidInput(
                    f"method {self.name} has no parameter {name!r}.{_did_you_mean(name, list(legal))} "
                    f"It takes: {', '.join(legal) or 'none'}."
                )
        return self.estimator_class()(**{**self.defaults, **params})


_DLE_PAPER = "H. Wang, H. Huang, C. Ding: Discriminant Laplacian Embedding"
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
            f"method {name!r} is not known.{_did_you_mean(name, known)} Methods: {', '.join(known)}."
        ) from None
