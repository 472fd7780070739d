"""One entry of the method registry: what a method is, what it needs and how its estimator is built."""

import difflib
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from embedding_core.errors import InvalidInput

Role = Literal["projection", "classifier"]
_DESCRIPTIVE = {"title", "paper", "equations", "cost", "baseline", "public"}


def did_you_mean(name: str, known: list[str]) -> str:
    """Return a sentence that suggests the known names closest to `name`, or "" if none is close."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method of the registry.

    Parameters
    ----------
    name, title : str
        The name used in configurations and the title shown to readers.
    paper, equations : str
        Source of the method and the equations that it implements. Empty for plain baselines.
    module, attribute : str
        Module and name of the estimator class.
    role : {"projection", "classifier"}
        Contract of the estimator; see `embedding_core.registry`.
    inductive : bool, default=True
        Whether the method can transform or classify rows that were not part of the fit.
    single_label, multi_label : bool, default=True
        Whether the method accepts exactly one label per row, and any number of labels per row.
    uses_graph : bool, default=False
        Whether `fit` takes an affinity between rows. Such methods are also fitted on unlabeled rows.
    cost : str
        Growth of the run time with n rows, p features and K labels; after a semicolon that of many rows.
    baseline : bool, default=False
        Whether the method is a plain baseline.
    defaults : mapping, optional
        Parameters that differ from the defaults of the estimator.
    own_scaling : bool, default=False
        Whether the method scales its input itself, or must see it unscaled. The scaling chosen for the other
        methods is then not applied.
    by_rows : bool, default=False
        Whether the estimator reads items some rows at a time, so that it takes a `RowView` of a large matrix
        instead of a copy. A method with a graph takes one only together with an affinity.
    public : bool, default=True
        Whether `embedding_core` exports the estimator class. Public estimators must pass the tests of the
        estimator contract and scikit-learn's common checks.
    """

    name: str
    title: str
    paper: str = ""
    equations: str = ""
    module: str
    attribute: str
    role: Role
    inductive: bool = True
    single_label: bool = True
    multi_label: bool = True
    uses_graph: bool = False
    cost: str
    baseline: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_scaling: bool = False
    by_rows: bool = False
    public: bool = True

    @property
    def growth(self) -> int:
        """Power of n in the run time of many rows: the last clause of `cost`."""
        return max([1, *map(int, re.findall(r"\bn\^(\d)", self.cost.rpartition(";")[2]))])

    @property
    def sees_all_rows(self) -> bool:
        """Whether the fit includes unlabeled rows (always without the labels of the test rows)."""
        return self.uses_graph or not self.inductive

    def takes(self, single_label: bool | None) -> bool:
        """Return whether the method accepts one label per row (True), several (False), or both (None)."""
        if single_label is None:
            return self.single_label and self.multi_label
        return self.single_label if single_label else self.multi_label

    def facts(self) -> dict[str, Any]:
        """Return the fields that can change a result, without the descriptive ones."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _DESCRIPTIVE}

    @property
    def type_name(self) -> str:
        """Fully qualified name of the estimator class."""
        return f"{self.module}.{self.attribute}"

    def input_scale(self, requested: str) -> str:
        """Return the scaling to apply before the method when `requested` was chosen for all methods."""
        return "none" if self.own_scaling else requested

    def unscaled(self) -> dict[str, str]:
        """Return the parameters that make the estimator use its input without scaling it."""
        return {name: "none" for name in ("input_scale", "scale") if name in self.parameters()}

    def estimator_class(self) -> type[Any]:
        """Import the estimator class.

        Raises
        ------
        ImportError
            If `module` does not exist or has no class `attribute`. The message names the registry entry.
        """
        try:
            found: type[Any] = getattr(importlib.import_module(self.module), self.attribute)
            return found
        except (ModuleNotFoundError, AttributeError) as error:
            raise ImportError(
                f"registry entry {self.name!r}: cannot import {self.attribute!r} from {self.module!r} "
                f"({error}); correct `module` or `attribute` in embedding_core/registry/catalog.py."
            ) from error

    def parameters(self) -> dict[str, Any]:
        """Return the parameters with their defaults; defaults of the entry override the estimator's."""
        signature = inspect.signature(self.estimator_class())
        own = {name: parameter.default for name, parameter in signature.parameters.items()}
        return own | dict(self.defaults)

    def build(self, **params: Any) -> Any:
        """Create an unfitted estimator.

        Raises
        ------
        InvalidInput
            If the estimator has no parameter of a given name. The message lists the parameters.
        """
        legal = self.parameters()
        for name in params:
            if name not in legal:
                raise InvalidInput(
                    f"method {self.name} has no parameter {name!r}.{did_you_mean(name, list(legal))} "
                    f"It takes: {', '.join(legal) or 'none'}."
                )
        return self.estimator_class()(**{**self.defaults, **params})
