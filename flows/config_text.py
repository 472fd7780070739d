"""The configuration as commented TOML: each key with its description, allowed values and default.

Everything is generated from the typed settings, so that the text cannot differ from what is accepted.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from flows.config import RunConfig

# Fits a terminal of 80 columns.
_COMMENT_WIDTH = 78
_TYPES = {"integer": "integer", "number": "number", "string": "text", "object": "table"}

Schema = Mapping[str, Any]


def show_config(config: RunConfig) -> str:
    """Return the configuration as TOML that reads back as the same configuration."""
    schema = RunConfig.model_json_schema()
    writer = _Writer(schema.get("$defs", {}))
    lines = writer.table_lines("", schema, config.model_dump(mode="json"))
    return "\n".join(lines).strip() + "\n"


class _Writer:
    """Writes tables of settings with comments from their JSON schema."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def table_lines(self, name: str, schema: Schema, values: Mapping[str, Any]) -> Iterator[str]:
        """One table: its own keys first, then the tables inside it."""
        fields = schema.get("properties", {})
        tables = {key: value for key, value in values.items() if isinstance(value, dict)}
        keys = {key: value for key, value in values.items() if key not in tables}
        if name and (keys or not tables):
            yield from _comment(_first_line(schema))
            yield f"[{name}]"
        for key, value in keys.items():
            yield from self._key_lines(f"{name}.{key}".lstrip("."), fields.get(key), value)
        yield ""
        for key, value in tables.items():
            inner = self._resolve(fields.get(key, {}))
            yield from self.table_lines(f"{name}.{key}".lstrip("."), inner, value)

    def _key_lines(self, path: str, field: Schema | None, value: Any) -> Iterator[str]:
        key = path.rpartition(".")[2]
        if field is not None:
            yield from _comment(field.get("description", ""))
            default = field.get("default")
            end = f"; default: {_toml_value(default)}" if default is not None else ", optional"
            yield from _comment(f"  {self._allowed(path, field)}{end}")
        yield f"{key} = {_toml_value(value)}" if value is not None else f"# {key} ="

    def _allowed(self, path: str, field: Schema) -> str:
        return (
            _choose(map(_toml_value, _known_names()[path])) if path in _known_names() else self._type(field)
        )

    def _type(self, field: Schema) -> str:
        field = self._resolve(field)
        if "anyOf" in field:
            return " or ".join(self._type(one) for one in field["anyOf"] if one.get("type") != "null")
        if "enum" in field or "const" in field:
            return _choose(map(_toml_value, field.get("enum", [field.get("const")])))
        if field.get("type") == "boolean":
            return "true or false"
        if field.get("type") == "array":
            return self._list_type(field)
        if field.get("maxLength") == 1:
            return "one character"
        return _TYPES.get(field.get("type", ""), "value") + _range(field)

    def _list_type(self, field: Schema) -> str:
        parts = [self._type(one) for one in field.get("prefixItems", [])]
        if parts:
            return f"list of {', '.join(parts)}"
        return f"list of {self._type(field.get('items', {}))}{', not empty' if field.get('minItems') else ''}"

    def _resolve(self, field: Schema) -> Schema:
        """The schema that a reference points to; the field's own description and default win."""
        if "$ref" not in field:
            return field
        found = self._definitions[field["$ref"].rpartition("/")[2]]
        return {**found, **{key: value for key, value in field.items() if key != "$ref"}}


def _known_names() -> dict[str, list[str]]:
    """Settings whose allowed values are defined by code that the typed settings do not import."""
    from embedding_core.metrics import METRICS

    return {"evaluation.sort_by": [metric.name for metric in METRICS]}


def _range(field: Schema) -> str:
    low, above, high = field.get("minimum"), field.get("exclusiveMinimum"), field.get("maximum")
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if low is not None:
        return f", at least {low:g}"
    return f" above {above:g}" if above is not None else ""


def _choose(names: Any) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else str(last)


def _first_line(schema: Schema) -> str:
    return str(schema.get("description", "")).partition("\n")[0]


def _comment(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(),
        _COMMENT_WIDTH,
        initial_indent=f"# {indent}",
        subsequent_indent=f"# {indent}",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _toml_value(value: Any) -> str:
    # TOML requires DEL to be escaped, JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
