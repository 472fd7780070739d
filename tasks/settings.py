"""Typed settings of every stage, with all defaults; unknown keys are rejected."""

import dataclasses
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from embedding_core.features.registry import EXTRACTORS, extractor_class
from storage.sources.registry import READERS, source_names
from tasks.budget import parse_duration

if TYPE_CHECKING:
    SourceKind = str
else:
    SourceKind = Literal[("auto", *READERS)]


class Settings(BaseModel):
    """Base of all settings: immutable, no unknown keys, validated defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def split_names(names: Any) -> Any:
    """Split a comma-separated string into a list; return other values unchanged."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


class StoreSettings(Settings):
    """Where artifacts are stored; nothing here changes a result."""

    uri: str | None = Field(
        None,
        description="shared store, s3://bucket/folder or another fsspec address; default: the home folder",
    )
    grace_minutes: float = Field(
        60.0, ge=0, description="`store gc` keeps artifacts of a shared store that are newer than this"
    )


class SourceSettings(Settings):
    """Where the collection is and how its labels are read."""

    path: str = Field("demo", description="folder, file or built-in set: " + ", ".join(source_names()))
    kind: SourceKind = Field("auto", description="reader; auto chooses one by the content of the path")
    labels: str | None = Field(None, description="label file that is not beside the data, or label column")
    edges: str | None = Field(None, description="edge list of given similarities, Parquet or CSV")
    label_separator: str = Field(
        "|", min_length=1, max_length=1, description="separates the labels of an item"
    )
    strict: bool = Field(
        False, description="stop at unreadable images and label file problems instead of listing them"
    )
    paranoid: bool = Field(False, description="hash every file again even if its size and times are the same")
    min_label_count: int = Field(1, ge=1, description="drop labels with fewer items than this")
    drop_labels: tuple[str, ...] = Field((), description="labels to drop")
    # Not a setting of the user: which class describes a source decides whether its labels are read.
    labeled: ClassVar[bool] = True


class NewItems(SourceSettings):
    """Items to annotate: a source whose labels are not read and need not exist."""

    labeled: ClassVar[bool] = False


_EXTRACTOR = Field("color_moments", description="extractor for collections of images")


class BaseFeatureSettings(Settings):
    """The feature extractor of images, its parameters, and the scaling of features.

    Each registered extractor has a table of its parameters, for instance `features.color_moments`.
    """

    extractor: str = _EXTRACTOR
    scale: Literal["auto", "none", "zscore", "unit"] = Field(
        "auto",
        description="scaling before a method; auto: zscore for images, none for supplied features",
    )

    def resolve_scale(self, images: bool) -> str:
        """The scaling that `auto` selects.

        Moments of images differ by orders of magnitude. Supplied features are used unchanged, as in the
        papers.
        """
        if self.scale != "auto":
            return self.scale
        return "zscore" if images else "none"

    def parameters(self) -> dict[str, Any]:
        """Parameters of the chosen extractor."""
        found: Settings = getattr(self, self.extractor)
        return found.model_dump(mode="json")


def _parameter_table(name: str) -> Any:
    """Settings made from the fields of an extractor; its own checks validate them."""
    extractor = extractor_class(name)

    def check(table: Settings) -> Settings:
        extractor(**table.model_dump())
        return table

    types = get_type_hints(extractor)
    fields: dict[str, Any] = {
        one.name: (types[one.name], Field(one.default, description=one.metadata.get("description")))
        for one in dataclasses.fields(extractor)  # type: ignore[arg-type]  # every extractor is a dataclass
    }
    validators: Any = {"check": model_validator(mode="after")(check)}
    return create_model(
        f"{name}_settings",
        __base__=Settings,
        __doc__=f"Parameters of the extractor {name}.",
        __validators__=validators,
        **fields,
    )


def make_feature_settings() -> type[BaseFeatureSettings]:
    """Settings with one table per registered extractor."""
    extractor: Any = (Literal[tuple(EXTRACTORS)], _EXTRACTOR)
    tables: dict[str, Any] = {
        name: (table, Field(table(), description=f"parameters of the extractor {name}"))
        for name in EXTRACTORS
        for table in [_parameter_table(name)]
    }
    return create_model(
        "FeatureSettings",
        __base__=BaseFeatureSettings,
        __module__=__name__,
        __doc__=BaseFeatureSettings.__doc__,
        extractor=extractor,
        **tables,
    )


if TYPE_CHECKING:

    class FeatureSettings(BaseFeatureSettings):
        """See `make_feature_settings`."""

else:
    FeatureSettings = make_feature_settings()


class AffinitySettings(Settings):
    """The graph between items."""

    graph: Literal["auto", "knn", "gaussian", "given"] = Field(
        "auto", description="kind of graph; auto: given if source.edges is set, else knn"
    )
    n_neighbors: int = Field(10, ge=1, description="neighbors per item in the knn graph")
    weights: Literal["gaussian", "heat", "binary"] = Field(
        "gaussian", description="edge weights of the knn graph"
    )
    sigma: Literal["auto"] | float = Field(
        "auto", description="kernel width; auto: mean squared length of the edges"
    )
    memory_budget_gb: float = Field(2.0, gt=0, description="memory limit of the dense gaussian graph, in GB")

    @field_validator("sigma")
    @classmethod
    def _sigma_is_positive(cls, sigma: str | float) -> str | float:
        if isinstance(sigma, float) and not sigma > 0:
            raise ValueError(f"sigma={sigma}: must be positive or 'auto'")
        return sigma


class EmbeddingSettings(Settings):
    """Which methods run and with which parameters."""

    methods: tuple[str, ...] = Field(
        ("mlda", "multilabel_dle"),
        min_length=1,
        description='method names, or "all" for every method that accepts the labels',
    )
    n_components: int | None = Field(
        None, ge=1, description="dimensions of the embedding; default: number of labels - 1"
    )
    params: dict[str, dict[str, Any]] = Field(default_factory=dict, description="parameters by method name")

    @model_validator(mode="before")
    @classmethod
    def _one_method(cls, given: Any) -> Any:
        """Accept `method = "mlda"` for `methods = ["mlda"]`."""
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
    seed: int = Field(1, ge=0, description="random seed of the folds")
    n_neighbors: tuple[int, ...] = Field(
        (1, 10), min_length=1, description="values of k of the kNN classifiers, one result each"
    )
    baselines: tuple[str, ...] = Field(
        ("1nn", "1nn_zscore", "svm"), description="baselines that are always evaluated"
    )
    sort_by: str = Field("macro_f1", description="metric that ranks the results")


class AnnotationSettings(Settings):
    """The kNN classifier that annotates new items in the embedding."""

    n_neighbors: int = Field(10, ge=1, description="neighbors that vote")
    weights: Literal["uniform", "distance"] = Field("distance", description="weights of the votes")


class AutoSettings(Settings):
    """The candidates of `labelscape auto` and the time for scoring them."""

    budget: str = Field("10m", description="time for scoring candidates, for instance 90s, 10m or 1h30m")
    candidates: tuple[str, ...] = Field((), description="candidate names; default: all")

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
    """What the report shows in addition to results."""

    thumbnails: int = Field(24, ge=0, le=200, description="number of sample images")


class TrackingSettings(Settings):
    """Where metrics, models and figures are recorded."""

    enabled: bool = Field(True, description="record runs in MLflow")
    uri: str | None = Field(None, description="any MLflow URI; default: SQLite in the home folder")
    experiment: str | None = Field(None, description="default: the source's name")
