"""The typed configuration of a run: defaults, TOML file and command-line overrides in one model."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from flows.toml_text import DEEPEST, MAX_BYTES, parse_toml
from storage.artifacts.regular_files import open_regular
from storage.artifacts.run_log import LoggedRun
from storage.credentials import hide_secrets, learn
from storage.errors import ConfigError
from storage.paths import expand_path
from storage.urls import is_address, redact, redact_argument
from tasks.executor import parse_executor
from tasks.settings import (
    AffinitySettings,
    AnnotationSettings,
    AutoSettings,
    EmbeddingSettings,
    EvaluationSettings,
    FeatureSettings,
    MapSettings,
    NotifySettings,
    ReportSettings,
    ScheduleSettings,
    Settings,
    SourceSettings,
    StoreSettings,
    TrackingSettings,
    split_names,
)

DEFAULT_FILE = Path("labelscape.toml")
# Tables that contain an address.
_WITH_ADDRESS = ("tracking", "store", "schedule", "notify")


class RunConfig(Settings):
    """All settings of a run; also the parameter of the deployed flow."""

    name: str | None = Field(None, description="name of the run; default: the name of the source")
    home: str | None = Field(
        None, description="folder of store, database and reports; default: LABELSCAPE_HOME, else .labelscape"
    )
    executor: str = Field(
        "auto",
        description="where folds, trials and image portions run: auto, serial, threads:N, processes:N, or a "
        "Dask cluster (dask://host:port); all give the same results. auto: one worker per core",
    )
    store: StoreSettings = StoreSettings()
    source: SourceSettings = SourceSettings()
    features: FeatureSettings = FeatureSettings()
    affinity: AffinitySettings = AffinitySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    annotation: AnnotationSettings = AnnotationSettings()
    auto: AutoSettings = AutoSettings()
    report: ReportSettings = ReportSettings()
    map: MapSettings = MapSettings()
    tracking: TrackingSettings = TrackingSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    notify: NotifySettings = NotifySettings()

    @field_validator("executor")
    @classmethod
    def _executor_exists(cls, executor: str) -> str:
        parse_executor(executor)
        return executor

    @field_validator("evaluation")
    @classmethod
    def _metric_exists(cls, evaluation: EvaluationSettings) -> EvaluationSettings:
        from embedding_core.metrics import METRICS

        names = [metric.name for metric in METRICS]
        if evaluation.sort_by not in names:
            raise ValueError(
                f"sort_by={evaluation.sort_by!r} is not a metric; choose from {', '.join(names)}"
            )
        return evaluation


def find_home(config: RunConfig) -> Path:
    """Return the home folder of a configuration."""
    return resolve_home(config.home)


def resolve_home(given: str | None) -> Path:
    """Return the given home folder, or LABELSCAPE_HOME, or `.labelscape`."""
    named = os.environ.get("LABELSCAPE_HOME")
    found = expand_path(given, "home") if given else expand_path(named or ".labelscape", "LABELSCAPE_HOME")
    try:
        return found.resolve()
    except (OSError, RuntimeError) as error:  # a link that points to itself
        raise ConfigError(f"home {str(found)!r} cannot be used ({error}); give another folder.") from None


def repeat_config(run: LoggedRun, here: RunConfig) -> RunConfig:
    """Return the configuration of an earlier run, with the home and store of `here`."""
    known = {**run.config, "home": str(find_home(here)), "store": here.store}
    return _validate(known, f"the configuration of run {run.id}")


def load_config(file: Path | None, overrides: Sequence[str] = (), **given: Any) -> RunConfig:
    """Read a TOML file, then apply `key.sub=value` overrides, then keyword tables.

    Relative paths of the source, of an ONNX model and of a feature table are relative to the folder of the
    TOML file, and in overrides to the current folder.
    """
    values = _read_toml(file) if file is not None else {}
    chosen = [_split_override(override) for override in overrides]
    for keys, value in chosen:
        if isinstance(value, str) and keys in (["source", "path"], ["source", "edges"]):
            value = place_from(Path(), value)
        elif isinstance(value, str) and value and keys == ["schedule", "answers"]:
            value = _absolute(Path(), value, "schedule.answers")
        _set_dotted(values, keys, value)
        if keys in (["features", "extractors"], ["features", "onnx", "path"]):
            _place_models(values["features"], Path())
    _merge(values, given)
    if any(keys == ["source", "labels"] for keys, _ in chosen):
        _place_labels(values["source"])
    return _validate(values, str(file or "configuration"))


def load_default_config(home: str | None = None) -> RunConfig:
    """Return the configuration in labelscape.toml of the current folder; the defaults if there is none."""
    return load_config(DEFAULT_FILE if DEFAULT_FILE.is_file() else None, home=home)


def _validate(values: dict[str, Any], where: str) -> RunConfig:
    learn(values)
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(hide_secrets(_explain(error, where))) from None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with open_regular(file) as opened:
            values = parse_toml(opened.read(MAX_BYTES + 1).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise ConfigError(f"{file}: is not valid TOML ({error}).") from None
    source = values.get("source")
    if isinstance(source, dict):
        for key in ("path", "labels", "edges"):
            if isinstance(source.get(key), str):
                place = place_from(file.parent, source[key])
                # `labels` may also name a column, or a file beside the data.
                source[key] = place if key != "labels" or Path(place).exists() else source[key]
    schedule = values.get("schedule")
    if isinstance(schedule, dict) and isinstance(schedule.get("answers"), str) and schedule["answers"]:
        schedule["answers"] = _absolute(file.parent, schedule["answers"], "schedule.answers")
    _place_models(values.get("features"), file.parent)
    return values


def _place_models(features: Any, folder: Path) -> None:
    """Make the paths of models, codebooks and feature tables absolute."""
    if not isinstance(features, dict):
        return
    chosen = split_names(features.get("extractors"))
    if isinstance(chosen, list):
        features["extractors"] = [_place_choice(one, folder) for one in chosen]
    for name, key in (("onnx", "path"), ("bow_sift", "codebook")):
        table = features.get(name)
        if isinstance(table, dict) and isinstance(table.get(key), str):
            table[key] = _absolute(folder, table[key], f"features.{name}.{key}")


def _place_choice(choice: Any, folder: Path) -> Any:
    name, _, path = choice.partition(":") if isinstance(choice, str) else ("", "", "")
    named = name in ("onnx", "table", "bow_sift") and path
    return f"{name}:{_absolute(folder, path, 'features.extractors')}" if named else choice


def _place_labels(source: dict[str, Any]) -> None:
    """Make the path of a label file absolute, unless it names a column or a file beside the data."""
    labels, path = source.get("labels"), Path(str(source.get("path", "")))
    if isinstance(labels, str):
        beside = (path if path.is_dir() else path.parent) / labels
        place = Path(place_from(Path(), labels))
        source["labels"] = str(place) if place.is_file() and not beside.is_file() else labels


def place_from(folder: Path, path: str) -> str:
    """Return the absolute path of a source named in a folder; a built-in set keeps its name."""
    from storage.sources.registry import source_names

    if not path or path in source_names():
        return path
    if is_address(path):
        raise ConfigError(f"{redact(path)!r} is an address; a source is a folder or file. Download it first.")
    return _absolute(folder, path, "source")


def _absolute(folder: Path, path: str, named: str) -> str:
    return str((folder / expand_path(path, named)).absolute())


def _split_override(override: str) -> tuple[list[str], Any]:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"--set {redact_argument(override)!r}: expected KEY=VALUE, "
            "for instance --set affinity.n_neighbors=15."
        )
    if key.count(".") >= DEEPEST:
        raise ConfigError(f"--set {key[:40]}...: the key has more than {DEEPEST} parts.")
    return key.strip().split("."), _parse_value(text.strip())


def _parse_value(text: str) -> Any:
    """Parse a TOML value; return other text unchanged."""
    try:
        found = parse_toml(f"value = {text}")
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return text
    return found["value"] if len(found) == 1 else text


def as_override(value: Any) -> str:
    """The text of a value in `--set KEY=VALUE`: text as it is if it is read as text, else as in TOML.

    >>> as_override("a b"), as_override("12"), as_override(("x", "y"))
    ('a b', '"12"', '["x", "y"]')
    """
    if isinstance(value, str) and _parse_value(value.strip()) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _set_dotted(values: dict[str, Any], keys: list[str], value: Any) -> None:
    for depth, key in enumerate(keys[:-1]):
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"--set {'.'.join(keys)}: {'.'.join(keys[: depth + 1])} is a value, not a table."
            )
    values[keys[-1]] = value
    if keys[-1] == "method":
        values.pop("methods", None)


def _merge(values: dict[str, Any], given: dict[str, Any]) -> None:
    for key, value in given.items():
        if isinstance(value, dict):
            table = values.setdefault(key, {})
            if isinstance(table, dict):  # any other value is rejected by the validation
                _merge(table, value)
        elif value is not None:
            values[key] = value
            if key == "methods":  # `--methods` also replaces `method` of a file
                values.pop("method", None)


def _explain(error: ValidationError, where: str) -> str:
    lines = [f"{where} is not valid:"]
    for problem in error.errors():
        place, got = ".".join(str(part) for part in problem["loc"]), _got(problem["loc"], problem["input"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"  {place}: unknown key{_near(problem['loc'])}")
        elif problem["type"] == "model_type":
            lines.append(f"  {place}: expected a table of settings, [{place}] (got {got})")
        else:
            lines.append(f"  {place}: {problem['msg'].removeprefix('Value error, ')} (got {got})")
    lines.append("`labelscape config --show` prints every key with its allowed values and default.")
    return "\n".join(lines)


def _got(place: tuple[int | str, ...], value: Any) -> str:
    """The value that was refused; only its type if it may be an address."""
    return f"a {type(value).__name__}" if place[0] in _WITH_ADDRESS else repr(value)


def _near(place: tuple[int | str, ...]) -> str:
    """Suggest a key similar to an unknown one, or list the keys of its table."""
    from difflib import get_close_matches

    model: Any = RunConfig
    for part in place[:-1]:
        field = getattr(model, "model_fields", {}).get(str(part))
        model = getattr(field, "annotation", None)
    names = list(getattr(model, "model_fields", {}))
    close = get_close_matches(str(place[-1]), names, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else f"; known: {', '.join(names)}"
