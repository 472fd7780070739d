"""Why a stage is stale: the differences between the recipe of its artifact and the present recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN = 3
# Settings that a stage takes from the configuration table of another stage.
_BORROWED = {"scale": "features.scale", "strict": "source.strict", "sort_by": "evaluation.sort_by"}
_TABLES = {"ingest": "source", "embedding": "annotation", "model": "annotation"}
# Module fingerprints report this in detail.
_CODE = "code"
# What an extractor learned is an input, too, which is reported as such.
_LEARNED = "learned"
# Digests of the files of a pretrained model.
_FILES = "files."


# Inputs of stages that have another name than what they contain.
_INPUTS = {
    "manifest": "items or labels",
    "training": "training items",
    "source": "files of the source",
    "edges": "edge list",
    "affinity": "graph",
    "correlation": "label correlation",
    "learned": "what the extractor learned",
}
_BLOCKS = "blocks"
# Settings of a block that differ by extractor, by the name of its preparation.
_BY_BLOCK = {"scale": "features.scales", "weight": "features.weights"}


def explain(before: Mapping[str, Any], now: Mapping[str, Any], waiting: Sequence[str] = ()) -> list[str]:
    """The differences between two recipes, in words, except for inputs that are still `waiting`."""
    if extractors := _changed_extractors(before, now):
        return [extractors]  # everything else follows from it
    changes = _differences(before["params"], now["params"])
    found = {name: change for name, change in changes if name.partition(".")[0] not in (_CODE, _LEARNED)}
    files = [name.removeprefix(_FILES) for name in found if name.startswith(_FILES)]
    reasons = [
        f"parameter {_setting(now, name)} {change}"
        for name, change in found.items()
        if not name.startswith(_FILES)
    ]
    reasons = list(dict.fromkeys(reasons))  # one setting may change several blocks
    if files:
        reasons.append(f"files of the extractor changed: {', '.join(files)}")
    reasons += _changed_code(before["code"], now["code"])
    inputs = [name for name in now["inputs"] if before["inputs"].get(name) != now["inputs"][name]]
    words = [input_words(now, name) for name in inputs if name not in waiting]
    words += [
        f"{input_words(before, name)} (no longer used)"
        for name in before["inputs"]
        if name not in {*now["inputs"], *waiting}
    ]
    if words:
        reasons.append(f"data: {', '.join(words)} changed")
    if before["schema"] != now["schema"]:
        reasons.append(f"storage format {before['schema']} → {now['schema']}")
    return reasons


def input_words(recipe: Mapping[str, Any], name: str) -> str:
    """What an input of a stage contains, in words."""
    if _BLOCKS in recipe["params"]:
        return f"block {name}"
    return _INPUTS.get(name, name)


def _changed_code(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    code = sorted(module for module in {*before, *now} if before.get(module) != now.get(module))
    if not code:
        return []
    shown = ", ".join(f"{module.replace('.', '/')}.py" for module in code[:_SHOWN])
    more = f" and {len(code) - _SHOWN} more modules" if len(code) > _SHOWN else ""
    return [f"code of {shown}{more} changed"]


def _changed_extractors(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The reason of a features stage that has other extractors than before; empty if they are the same."""
    if now["stage"] != "features":
        return ""
    old, new = _extractors(before["params"]), _extractors(now["params"])
    if old == new or not (old and new):
        return ""
    return f"parameter features.extractors {', '.join(old)} → {', '.join(new)}"


def _extractors(params: Mapping[str, Any]) -> list[str]:
    if _BLOCKS in params:
        return [block["name"] for block in params[_BLOCKS]]
    return [params["extractor"]] if "extractor" in params else []


def _setting(recipe: Mapping[str, Any], name: str) -> str:
    """The configuration key of a parameter of a recipe: `affinity.n_neighbors` for `n_neighbors`."""
    stage, variant = recipe["stage"], recipe["variant"]
    if stage == "tracking":
        return name.removeprefix("config.") if name.startswith("config.") else f"tracking.{name}"
    if name.startswith("method.params."):
        return f"embedding.params.{variant}.{name.removeprefix('method.params.')}"
    if name.startswith("method.facts."):
        return f"{name.removeprefix('method.facts.')} of the method {variant}"
    if stage == "report" and name == "title":
        return "name"
    if name.startswith(f"{_BLOCKS}."):
        block, _, field = name.removeprefix(f"{_BLOCKS}.").rpartition(".")
        if field == "fill":
            return "features.fill"
        return f"{_BY_BLOCK[field]}.{block}" if field in _BY_BLOCK else f"{field} of the block {block}"
    return _BORROWED.get(name) or f"{_TABLES.get(stage, stage)}.{name}"


def _differences(before: Any, now: Any, name: str = "") -> list[tuple[str, str]]:
    """Names of differing values, with the old and the new value."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = dict.fromkeys([*before, *now])
        return [
            found
            for key in keys
            for found in _differences(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        ]
    if name == _BLOCKS and isinstance(before, Sequence) and isinstance(now, Sequence):
        old, new = ({block["name"]: block for block in blocks} for blocks in (before, now))
        return _differences(old, new, name)
    return [] if before == now else [(name, f"{_shown(before)} → {_shown(now)}")]


def _shown(value: Any) -> str:
    """A value as it stands in a configuration."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
