"""Typed settings of every stage, with all defaults; unknown keys are rejected."""

import dataclasses
import shlex
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from embedding_core.blocks import Fill
from embedding_core.features.registry import EXTRACTORS, extractor_class, parse_choice
from storage.credentials import enter, enter_hook
from storage.paths import find_text_problem
from storage.sources.registry import READERS, source_names
from storage.sources.roles import split_list
from tasks.budget import parse_duration

if TYPE_CHECKING:
    SourceKind = str
else:
    SourceKind = Literal[("auto", *READERS)]

# Larger integers are not exact as floating-point numbers.
_LARGEST = 2**53


# Settings contain addresses without credentials; `storage.credentials.reveal` returns those for a connection.
Address: TypeAlias = Annotated[str, AfterValidator(enter)]


class Settings(BaseModel):
    """Base of all settings: immutable, no unknown keys, validated defaults."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # it may be a password
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_usable(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject values that no setting can have: unusable text, huge numbers, true for a number."""
        if value == "":
            raise ValueError("is empty; leave the key out for its default")
        types = set(_types(cls.model_fields[str(info.field_name)].annotation))
        if any(isinstance(one, type) and issubclass(one, Settings) for one in types):
            return value  # a table, whose settings are checked one by one
        for one in _scalars(value):
            if isinstance(one, str) and (problem := find_text_problem(one)):
                raise ValueError(problem)
            if isinstance(one, bool) and types & {int, float} and bool not in types:
                raise ValueError("expected a number, not true or false")
            if isinstance(one, int) and abs(one) > _LARGEST:
                raise ValueError(f"the number is out of range; give at most {_LARGEST}")
        return value


def _types(annotation: Any) -> list[Any]:
    """The types in an annotation, for instance int and None in `int | None`."""
    inner = get_args(annotation)
    return [found for one in inner for found in _types(one)] if inner else [annotation]


def _scalars(value: Any) -> Iterator[Any]:
    """The values in a setting, those in lists and tables included."""
    if isinstance(value, dict):
        yield from (found for one in value.values() for found in _scalars(one))
    elif isinstance(value, (list, tuple)):
        yield from (found for one in value for found in _scalars(one))
    else:
        yield value


def split_names(names: Any) -> Any:
    """Split a comma-separated string into a list; return other values unchanged."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def join_csv(name: str) -> str:
    """A column name as an entry of a list that is separated by commas."""
    return '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name


class StoreSettings(Settings):
    """Where artifacts are stored; nothing here changes a result."""

    uri: Address | None = Field(
        None,
        description="shared store, s3://bucket/folder or another fsspec address; default: the home folder",
    )
    grace_minutes: float = Field(
        60.0,
        ge=0,
        le=525_600,
        description="`store gc` keeps artifacts of a shared store that are newer than this",
    )


class SourceSettings(Settings):
    """Where the collection is and how its labels are read."""

    path: str = Field("demo", description="folder, file or built-in set: " + ", ".join(source_names()))
    kind: SourceKind = Field("auto", description="reader; auto chooses one by the content of the path")
    labels: str | None = Field(
        None, description="label file that is not beside the data, or label columns by name or pattern"
    )
    id: str | None = Field(None, description="column of a table with the ids; none: row numbers")
    features: tuple[str, ...] = Field((), description="feature columns of a table, by name or pattern (f*)")
    split: str | None = Field(None, description="column of a table with train and test")
    ignore: tuple[str, ...] = Field((), description="columns of a table to leave out, by name or pattern")
    categorical: Literal["ignore", "onehot"] = Field(
        "ignore", description="columns of text with few values: leave out, or encode each value as 0/1"
    )
    edges: str | None = Field(
        None,
        description="given links between items: an edge list (Parquet, CSV), a table with the columns id and "
        "links, or a Matrix Market file",
    )
    label_separator: str = Field(
        "|", min_length=1, max_length=1, description="separates the labels of an item"
    )
    strict: bool = Field(
        False, description="stop at unreadable images and label file problems instead of listing them"
    )
    paranoid: bool = Field(False, description="hash every file again even if its size and times are the same")
    min_label_count: int = Field(1, ge=1, description="drop labels with fewer items than this")
    drop_labels: tuple[str, ...] = Field((), description="labels to drop")
    text: str | None = Field(
        None, description="column with the texts; default: text, content, document or body"
    )
    every_seconds: float = Field(
        10.0, ge=0.1, le=86_400, description="time between two key frames of a clip, in seconds"
    )
    # Not settings of the user: the class of a source decides whether its labels are read, and whether it is
    # the source of an annotation.
    labeled: ClassVar[bool] = True
    annotated: ClassVar[bool] = False

    @field_validator("labels", mode="before")
    @classmethod
    def _join_labels(cls, names: Any) -> Any:
        """Accept a list of columns; names with a comma are quoted."""
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return names
        return ",".join(join_csv(name) for name in names)

    @field_validator("features", "ignore", mode="before")
    @classmethod
    def _split_columns(cls, names: Any) -> Any:
        return split_list(names) if isinstance(names, str) else names


class NewItems(SourceSettings):
    """Items to annotate: a source whose labels are not read and need not exist.

    `wanted` names the features of the model, so that only their columns are read.
    """

    labeled: ClassVar[bool] = False
    annotated: ClassVar[bool] = True
    wanted: tuple[str, ...] = ()


class PartlyLabeled(SourceSettings):
    """A collection whose unlabeled items are annotated; its labels are read as those of a run."""

    annotated: ClassVar[bool] = True


Scale = Literal["none", "zscore", "unit"]


class BaseFeatureSettings(Settings):
    """The feature extractors, their parameters, and the scaling of features.

    Each registered extractor has a table of its parameters, for instance `features.color_moments`.
    """

    extractors: tuple[str, ...] = Field(
        ("auto",),
        min_length=1,
        description="extractors whose features are joined: " + ", ".join(EXTRACTORS) + " "
        "(onnx:PATH runs a model in a file), given (given:NAME for one of several supplied blocks), "
        "table:PATH (features in a table, joined by id), or links:ppr (features of the first other "
        "extractor, propagated along source.edges); "
        "auto: color_moments for images, mfcc for sound, tfidf for text, else the supplied features",
    )
    scale: Literal["auto"] | Scale = Field(
        "auto",
        description="scaling before a method; auto: zscore for images and sound and for blocks of numbers "
        "that are joined, none for text and for supplied features alone",
    )
    scales: dict[str, Scale] = Field(
        default_factory=dict, description="scaling by extractor, where it differs from features.scale"
    )
    weights: dict[str, float] = Field(
        default_factory=dict, description="weight by extractor in the joined features; default: 1"
    )
    fill: Fill = Field(
        "none", description="fill missing values with this value of the training rows; none: an error"
    )

    @field_validator("extractors", mode="before")
    @classmethod
    def _split_extractors(cls, names: Any) -> Any:
        return split_names(names)

    @field_validator("extractors")
    @classmethod
    def _extractors_exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = ("auto", "given", "table", "links", *EXTRACTORS)
        for name in names:
            if name.partition(":")[0] not in known:
                raise ValueError(f"no extractor is called {name!r}; choose from {', '.join(known)}")
            if name.partition(":")[0] == "table" and not name.removeprefix("table").strip(": "):
                raise ValueError("name the table of features: table:PATH")
            if name.partition(":")[0] in EXTRACTORS:
                parse_choice(name)
        if "auto" in names and len(names) > 1:
            raise ValueError("auto stands alone; name every extractor instead")
        if len(set(names)) < len(names):
            raise ValueError("an extractor is named twice")
        return names

    @field_validator("weights")
    @classmethod
    def _weights_are_positive(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if not weight > 0:
                raise ValueError(f"{name}={weight}: must be positive")
        return weights

    @property
    def fills(self) -> bool:
        """Whether missing values are filled."""
        return self.fill != "none"

    def resolve_scale(self, content: str, joined: bool = False) -> str:
        """The scaling that `auto` selects for features of this content, alone or joined with others.

        Moments of images and of sound differ by orders of magnitude. Supplied features alone are used
        unchanged, as in the papers. Beside other blocks their columns are scaled as those are, so that the
        largest numbers of a table are not all that counts in its block. TF-IDF has rows of length 1 already.
        """
        if self.scale != "auto":
            return self.scale
        scaled = ("images", "sound", "features") if joined else ("images", "sound")
        return "zscore" if content in scaled else "none"

    def parameters(self, choice: str) -> dict[str, Any]:
        """Parameters of an extractor: those of its table, and what follows its name after a colon."""
        name, given = parse_choice(choice)
        table: Settings = getattr(self, name)
        return {**table.model_dump(mode="json"), **given}


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
    weights: Literal["gaussian", "heat", "binary", "intersection"] = Field(
        "gaussian",
        description="edge weights of the knn graph; intersection: histograms, by what they have in common",
    )
    sigma: Literal["auto"] | float = Field(
        "auto", description="kernel width; auto: mean squared length of the edges"
    )
    exact_items: int = Field(
        20_000, ge=2, description="neighbors among more items than this are found by an index"
    )
    recall: float = Field(
        0.99, gt=0, le=1, description="share of the true neighbors that the index must find; 1: exact"
    )
    memory_budget_gb: float = Field(2.0, gt=0, description="memory limit of dense graphs and kernels, in GB")

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
    seed: int = Field(1, ge=0, le=2**32 - 1, description="random seed of the folds")
    n_neighbors: tuple[int, ...] = Field(
        (1, 10), min_length=1, description="values of k of the kNN classifiers, one result each"
    )
    baselines: tuple[str, ...] = Field(
        ("1nn", "1nn_zscore", "svm"), description="baselines that are always evaluated"
    )
    exact_items: int = Field(
        20_000,
        ge=2,
        description="of more labeled items, the baseline svm is fitted as nystrom_svm and least_squares_svm, "
        "and auto compares candidates that scale",
    )
    test_items: int = Field(
        10_000,
        ge=100,
        description="most items of a fold that are tested; of more, a stratified sample",
    )
    sort_by: str = Field("macro_f1", description="metric that ranks the results")


class AnnotationSettings(Settings):
    """The kNN classifier that annotates new items in the embedding."""

    n_neighbors: int = Field(10, ge=1, description="neighbors that vote")
    weights: Literal["uniform", "distance"] = Field("distance", description="weights of the votes")


class AutoSettings(Settings):
    """The candidates of `labelscape auto`, how they are scored and the time for all of it."""

    budget: str = Field(
        "10m",
        description="time from the start of the command to the fitted model, for instance 90s, 10m or 1h30m; "
        "tracking comes after it",
    )
    candidates: tuple[str, ...] = Field((), description="candidate names; default: all")
    closed: bool = Field(
        False,
        description="the items to annotate are those of this collection: candidates may use the features of "
        "held-out items, without their labels, in the fit",
    )
    rare_labels: Literal["leave_out", "keep"] = Field(
        "leave_out",
        description="labels of one or two labeled items: leave them out of the model, or keep them in it "
        "without judging candidates by them",
    )

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


class MapSettings(Settings):
    """The interactive map of the items."""

    points: int = Field(
        100_000,
        ge=100,
        le=200_000,
        description="items drawn one by one; of more, a sample over their density",
    )
    pictures: int = Field(
        10_000, ge=0, le=20_000, description="items whose picture, text or row is shown; of more, a sample"
    )


class TrackingSettings(Settings):
    """Where metrics, models and figures are recorded."""

    enabled: bool = Field(True, description="record runs in MLflow")
    uri: Address | None = Field(None, description="any MLflow URI; default: SQLite in the home folder")
    experiment: str | None = Field(None, description="default: the source's name")


class ScheduleSettings(Settings):
    """How deployed runs and `labelscape refresh` behave."""

    refresh: tuple[Literal["run", "auto", "annotate"], ...] = Field(
        ("run", "auto", "annotate"),
        min_length=1,
        description="what a refresh repeats when the source has changed",
    )
    tolerance: float = Field(
        0.02,
        ge=0,
        le=1,
        description="largest drop of the best score, in evaluation.sort_by, after which a refresh may still "
        "replace or refit the champion",
    )
    queue: int = Field(
        0,
        ge=0,
        le=1_000,
        description="items to label next that a refresh draws at random and writes into the home; 0: none",
    )
    answers: str | None = Field(
        None, description="corrections file that a refresh merges into the labels whenever it has changed"
    )
    overlap: Literal["wait", "skip"] = Field(
        "wait", description="a run that becomes due while another one is active: wait for it, or skip"
    )
    keep_days: float = Field(
        30.0,
        ge=0.05,
        le=36_500,
        description="days for which `prune` and the server of `up` keep flow runs, logs, events and reports",
    )
    database: Address | None = Field(
        None, description="database of the Prefect server of `up`; default: SQLite in the home folder"
    )

    @field_validator("refresh", mode="before")
    @classmethod
    def _split_names(cls, names: Any) -> Any:
        return split_names(names)


class NotifySettings(Settings):
    """Who is notified of failed runs, score drops and new champions; nobody by default."""

    about: tuple[Literal["failure", "drop", "champion"], ...] = Field(
        ("failure", "drop", "champion"), min_length=1, description="what is reported"
    )
    command: str | None = Field(
        None, description="program that receives the message as JSON on its standard input"
    )
    webhook: str | None = Field(None, description="http address that the message is posted to, as JSON")
    block: str | None = Field(
        None, description="notification block of Prefect, such as labelscape-email/mine for e-mail"
    )

    @field_validator("about", mode="before")
    @classmethod
    def _split_names(cls, names: Any) -> Any:
        return split_names(names)

    @field_validator("webhook")
    @classmethod
    def _is_http(cls, webhook: str | None) -> str | None:
        if webhook is not None and not webhook.lower().startswith(("http://", "https://")):
            raise ValueError("is not an http or https address")
        return webhook and enter_hook(webhook)

    @field_validator("command")
    @classmethod
    def _can_be_split(cls, command: str | None) -> str | None:
        if command is not None and not shlex.split(command):
            raise ValueError("names no program")
        return command

    @field_validator("block")
    @classmethod
    def _names_a_block(cls, block: str | None) -> str | None:
        if block is not None and len([part for part in block.split("/") if part.strip()]) != 2:
            raise ValueError("is not a block of Prefect; write TYPE/NAME, such as labelscape-email/mine")
        return block
