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


def explain(before: Mapping[str, Any], now: Mapping[str, Any], waiting: Sequence[str] = ()) -> list[str]:
    """The differences between two recipes, in words, except for inputs that are still `waiting`."""
    changes = _differences(before["params"], now["params"])
    found = {name: change for name, change in changes if name.partition(".")[0] not in (_CODE, _LEARNED)}
    files = [name.removeprefix(_FILES) for name in found if name.startswith(_FILES)]
    reasons = [
        f"parameter {_setting(now, name)} {change}"
        for name, change in found.items()
        if not name.startswith(_FILES)
    ]
    if files:
        reasons.append(f"files of the extractor changed: {', '.join(files)}")
    code = sorted(
        module
        for module in {*before["code"], *now["code"]}
        if before["code"].get(module) != now["code"].get(module)
    )
    if code:
        shown = ", ".join(f"{module.replace('.', '/')}.py" for module in code[:_SHOWN])
        more = f" and {len(code) - _SHOWN} more modules" if len(code) > _SHOWN else ""
        reasons.append(f"code of {shown}{more} changed")
    inputs = [name for name in now["inputs"] if before["inputs"].get(name) != now["inputs"][name]]
    inputs += [
        f"{name} (no longer used)" for name in before["inputs"] if name not in {*now["inputs"], *waiting}
    ]
    if inputs:
        reasons.append(f"data: {', '.join(inputs)} changed")
    if before["schema"] != now["schema"]:
        reasons.append(f"storage format {before['schema']} → {now['schema']}")
    return reasons


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
    return [] if before == now else [(name, f"{before} → {now}")]
