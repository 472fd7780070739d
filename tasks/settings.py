"""Typed settings of every stage: unknown keys are refused, defaults are visible in one place."""

from math import isfinite
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tasks.selection.budget import parse_duration


class Settings(BaseModel):
    """Base of all settings: immutable, no unknown keys, defaults checked like given values."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def split_names(names: Any) -> Any:
    """Names separated by commas as a list; anything else as it is."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


class StoreSettings(Settings):
    """Where artifacts are kept; nothing here changes a result."""

    uri: str | None = Field(
        None,
        description="s3://bucket/folder or any fsspec address that others share; default: the home folder",
    )
    grace_minutes: float = Field(
        60.0, ge=0, description="`store gc` leaves what was stored at a shared address more recently"
    )


class SourceSettings(Settings):
    """Where the collection lies and how its labels are read."""

    path: str = Field("demo", description="folder, file, or a built-in set: demo, digits, iris, wine, toys")
    kind: Literal["auto", "images", "table", "arff", "sparse", "builtin"] = Field(
        "auto", description="auto recognizes the source by what it is"
    )
    labels: str | None = Field(None, description="label file, where it is not beside the data")
    edges: str | None = Field(None, description="given pairwise similarity: an edge list, Parquet or CSV")
    label_separator: str = Field("|", min_length=1, max_length=1, description="between labels of one item")
    strict: bool = Field(False, description="stop at the first unreadable image instead of listing it")
    paranoid: bool = Field(False, description="read every file again, whatever its size and times say")
    min_label_count: int = Field(1, ge=1, description="leave out labels with fewer items than this")
    drop_labels: tuple[str, ...] = Field((), description="labels to leave out by name")


class FeatureSettings(Settings):
    """Block color moments of images, and the scale in which later stages see any features."""

    grid: tuple[int, int] = Field((8, 8), description="blocks down and across an image")
    moments: tuple[Literal["mean", "variance"], ...] = Field(
        ("mean", "variance"), min_length=1, description="moments of each block and channel"
    )
    color_space: Literal["rgb", "ycbcr", "hsv", "luv"] = Field(
        "rgb", description="color space of the moments"
    )
    scale: Literal["auto", "none", "zscore", "unit"] = Field(
        "auto",
        description="how methods see them; auto: zscore for images, none (as given, as in the papers) else",
    )

    def resolve_scale(self, images: bool) -> str:
        """The scale that `auto` means: moments of images differ in size by orders, given features may not."""
        if self.scale != "auto":
            return self.scale
        return "zscore" if images else "none"

    @field_validator("grid")
    @classmethod
    def _grid_is_positive(cls, grid: tuple[int, int]) -> tuple[int, int]:
        if min(grid) < 1 or max(grid) > 64:
            raise ValueError(f"grid={grid}: both numbers must lie between 1 and 64")
        return grid


class AffinitySettings(Settings):
    """The graph between items."""

    graph: Literal["auto", "knn", "gaussian", "given"] = Field(
        "auto", description="auto: the given edges where there are any, else knn"
    )
    n_neighbors: int = Field(10, ge=1, description="neighbors per item in the knn graph")
    weights: Literal["gaussian", "heat", "binary"] = Field(
        "gaussian", description="edge weights of the knn graph"
    )
    sigma: Literal["auto"] | float = Field("auto", description="auto: mean squared distance of the edges")
    memory_budget_gb: float = Field(2.0, gt=0, description="what the dense gaussian graph may take")

    @field_validator("sigma")
    @classmethod
    def _sigma_is_positive(cls, sigma: str | float) -> str | float:
        if isinstance(sigma, float) and not sigma > 0:
            raise ValueError(f"sigma={sigma}: must be above 0, or 'auto'")
        return sigma


class EmbeddingSettings(Settings):
    """Which methods run, and with which parameters."""

    methods: tuple[str, ...] = Field(
        ("mlda", "multilabel_dle"),
        min_length=1,
        description='names, or "all": every one that takes the labels',
    )
    n_components: int | None = Field(None, ge=1, description="default: number of labels - 1")
    params: dict[str, dict[str, Any]] = Field(default_factory=dict, description="by method name")

    @model_validator(mode="before")
    @classmethod
    def _one_method(cls, given: Any) -> Any:
        """Read `method = "mlda"` as `methods = ["mlda"]`."""
        if isinstance(given, dict) and "method" in given and "methods" not in given:
            rest = {name: value for name, value in given.items() if name != "method"}
            return {**rest, "methods": [given["method"]]}
        return given

    @field_validator("params")
    @classmethod
    def _params_are_finite(cls, params: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for method, values in params.items():
            for name, value in values.items():
                if isinstance(value, float) and not isfinite(value):
                    raise ValueError(f"{method}.{name}={value}: must be a finite number")
        return params

    @field_validator("methods", mode="before")
    @classmethod
    def _split_names(cls, methods: Any) -> Any:
        return split_names(methods)


class EvaluationSettings(Settings):
    """How methods are compared."""

    folds: int = Field(5, ge=2, description="folds of the cross-validation")
    seed: int = Field(1, ge=0, description="of the folds; figures differ by a point or two between seeds")
    n_neighbors: tuple[int, ...] = Field((1, 10), min_length=1, description="neighbors asked, each in turn")
    baselines: tuple[str, ...] = Field(("1nn", "1nn_zscore", "svm"), description="always beside the methods")
    sort_by: str = Field("macro_f1", description="metric that orders the table")


class AnnotationSettings(Settings):
    """The classifier that annotates new items in the embedding."""

    n_neighbors: int = Field(10, ge=1, description="neighbors that decide the labels of a new item")
    weights: Literal["uniform", "distance"] = Field("distance", description="weights of the neighbors")


class AutoSettings(Settings):
    """What `labelscape auto` chooses among, and how long it may score."""

    budget: str = Field("10m", description="time for scoring candidates: 90s, 10m, 1h30m")
    candidates: tuple[str, ...] = Field((), description="names; default: the whole menu")

    @field_validator("budget", mode="before")
    @classmethod
    def _budget_is_a_duration(cls, budget: Any) -> str:
        parse_duration(str(budget))
        return str(budget)

    @field_validator("candidates", mode="before")
    @classmethod
    def _split_names(cls, names: Any) -> Any:
        return split_names(names)


class ReportSettings(Settings):
    """What the report shows beside results."""

    thumbnails: int = Field(24, ge=0, le=200, description="sample pictures, where items are images")


class TrackingSettings(Settings):
    """Where metrics, models and figures are recorded."""

    enabled: bool = Field(True, description="record runs in MLflow")
    uri: str | None = Field(None, description="any MLflow URI; default: SQLite in the home folder")
    experiment: str | None = Field(None, description="default: the source's name")
