"""One method of a comparison: what it is, needs and costs, and how its estimator is made."""

import difflib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from embedding_core.errors import InvalidInput

Role = Literal["projection", "classifier"]
_FOR_READERS = {"title", "paper", "equations", "cost", "baseline"}


def did_you_mean(name: str, known: list[str]) -> str:
    """A sentence that offers the known names nearest to a mistaken one; empty where none is near."""
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
        It takes an affinity between rows, and so sees unlabeled rows too.
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
        """Whether its fit takes the unlabeled rows too (always without their labels)."""
        return self.uses_graph or not self.inductive

    def takes(self, single_label: bool | None) -> bool:
        """Whether it takes labels of this kind: one a row, any number (False), both (None)."""
        if single_label is None:
            return self.single_label and self.multi_label
        return self.single_label if single_label else self.multi_label

    def facts(self) -> dict[str, Any]:
        """What of it decides results; texts for readers do not."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _FOR_READERS}

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
                    f"method {self.name} has no parameter {name!r}.{did_you_mean(name, list(legal))} "
                    f"It takes: {', '.join(legal) or 'none'}."
                )
        return self.estimator_class()(**{**self.defaults, **params})
