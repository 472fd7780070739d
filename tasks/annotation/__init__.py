"""Annotation of new items: the model, its labeled items, the stage that predicts, and the files it writes."""

from storage.artifacts.annotations import Annotations
from tasks.annotation.model import FittedModel
from tasks.annotation.predicting import Request, load_annotations, stage
from tasks.annotation.recipes import check_recipe, match_columns

__all__ = [
    "Annotations",
    "FittedModel",
    "Request",
    "check_recipe",
    "load_annotations",
    "match_columns",
    "stage",
]
