"""The model that annotates, with what it knows about the labeled items."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from storage.artifacts.labeled_items import LabeledItems
from tasks.stages.feature_blocks import BlockPlan, blocks_of_recipe
from tasks.stages.features import GIVEN

if TYPE_CHECKING:
    from embedding_core.annotator import Annotator

NO_ITEMS = "This model has no record of its labeled items (it was tracked by an older version)"
NO_SCORES = "This model has no out-of-fold scores"
REMEDY = "train one with `labelscape auto`"


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model that annotates.

    Attributes
    ----------
    annotator : Annotator
    digest : str
        Digest of the stored bytes of the model.
    run, method : str
        The tracked run it belongs to, and its name in that run.
    labeled : LabeledItems or None
        The labeled items that it was fitted on; None if the model was tracked by an older version.
    labeled_digest : str
        Digest of the stored bytes of the labeled items.
    """

    annotator: "Annotator"
    digest: str
    run: str
    method: str
    labeled: LabeledItems | None = None
    labeled_digest: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """The run and the method, as the annotations record them."""
        return {"run": self.run, "method": self.method}

    @property
    def recipe(self) -> dict[str, Any]:
        """How the features that the model was fitted to were computed."""
        return dict(self.annotator.recipe or {})

    @property
    def blocks(self) -> list[BlockPlan]:
        """The blocks of features that the model was fitted to."""
        return blocks_of_recipe(self.recipe)

    @property
    def supplied_names(self) -> tuple[str, ...]:
        """Names of the features that the source supplied."""
        given = [block.recipe for block in self.blocks if block.recipe.get("extractor", GIVEN) == GIVEN]
        return tuple(name for recipe in given for name in recipe.get("feature_names") or ())

    @property
    def has_scores(self) -> bool:
        """Whether out-of-fold scores of the labeled items are known."""
        return self.labeled is not None and self.labeled.scores is not None

    @property
    def lacking(self) -> str:
        """Why nothing can be expected or promised; empty if it can."""
        if self.has_scores:
            return ""
        return f"{NO_ITEMS if self.labeled is None else NO_SCORES}; {REMEDY}"

    def belongs(self, labeled: LabeledItems) -> bool:
        """Whether labeled items have the labels and features of the model."""
        names = [str(name) for name in self.annotator.classes_]
        return labeled.label_names == names and labeled.X.shape[1] == self.annotator.n_features_in_
