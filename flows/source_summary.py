"""What a reader recognizes in a source, before anything runs (`labelscape inspect`)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.config import RunConfig
from flows.runner import open_workspace
from storage.artifacts.regular_files import open_regular
from storage.errors import ConfigError, SourceError
from storage.quoting import quote
from storage.sources import Collection, OpenedSource, open_source, read_edges
from storage.sources.base import Part
from storage.sources.edges import ITEM_COLUMN, LINKS_COLUMN
from storage.sources.hygiene import FEW, label_notes
from storage.sources.image_folder import ImageFolder
from storage.sources.roles import Roles
from storage.sources.table import TableSource
from storage.sources.text_table import TextTable
from tasks.reporter import Reporter
from tasks.stages.feature_blocks import plan_blocks, refuse_lacking
from tasks.stages.ingest import open_collection, source_options
from tasks.stages.missing_parts import find_lacking

# Images whose header is read, to state their sizes.
_SAMPLED = 50


@dataclass(frozen=True)
class PartSummary:
    """One part of the items: how many items have it, and its features or files."""

    name: str
    content: str
    items: int
    features: int | None = None
    feature_names: list[str] = field(default_factory=list)
    missing: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    sizes: str = ""
    where: str = ""


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a table: its content, and what it is used for."""

    name: str
    content: str
    use: str


@dataclass(frozen=True)
class SourceSummary:
    """Everything that was recognized; `problem` says why a run would be refused."""

    path: str
    kind: str
    files: list[str]
    items: int
    labeled: int
    single_label: bool
    parts: list[PartSummary]
    labels: dict[str, int]
    split: dict[str, int]
    recognized: dict[str, str]
    columns: list[ColumnSummary]
    notes: list[str]
    problem: str = ""
    links: str = ""

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data, with the labels that have few items."""
        return {**asdict(self), "rare_labels": [name for name, n in self.labels.items() if n < FEW]}


def summarize_source(config: RunConfig) -> SourceSummary:
    """Read the source of a configuration as ingest does; nothing but caches is written.

    If it would be refused, the summary shows what can be read without labels and without complete features.

    Raises
    ------
    SourceError
        Nothing can be read.
    """
    workspace = open_workspace(config, Reporter())
    cache, problem = workspace.cache_dir, ""
    source: OpenedSource | None = None
    try:
        source = open_collection(config.source, workspace, config.features.fills)
        found = source.read(cache)
    except SourceError as error:
        problem = str(error)
        source, found = _read_rest(config, cache, error)
    said: list[str] = []
    problem = problem or _block_problem(config, source, found, said)
    links, odd = _read_links(config, found, said)
    columns = _columns(source, found)
    said += _links_advice(config, columns)
    return SourceSummary(
        path=config.source.path,
        kind=source.kind,
        files=_files(source),
        items=len(found.ids),
        labeled=int((found.labels >= 0).all(axis=1).sum()) if found.label_names else 0,
        single_label=found.single_label,
        parts=[
            replace(_summarize_part(part), where=found.recognized.get(part.name, "")) for part in found.parts
        ],
        labels=_label_counts(found),
        split=dict(Counter(name or "(none)" for name in found.split or []).most_common()),
        recognized=dict(found.recognized),
        columns=columns,
        notes=[*said, *(f"{note.file}: {note.message}" for note in (*found.notes, *label_notes(found)))],
        problem=problem or odd,
        links=links,
    )


def _read_links(config: RunConfig, found: Collection, said: list[str]) -> tuple[str, str]:
    """The given links in words, and why they would be refused; what is left out is added to `said`."""
    if config.source.edges is None:
        return "", ""
    import numpy as np

    path, place = Path(config.source.edges), config.source
    try:
        report = lambda line: said.append(f"{path.name}: {line}")  # noqa: E731
        i, j, w = read_edges(path, found.ids, report, place.strict, place.label_separator)
    except SourceError as error:
        return "", str(error)
    true = (i != j) & (w > 0)
    linked = len(np.unique(np.concatenate([i[true], j[true]])))
    if not linked:
        return "", f"{path}: no link between two items ({len(i):,} links are listed)."
    return f"{int(true.sum()):,}, {linked:,} of {len(found.ids):,} items have links; {path}", ""


def _links_advice(config: RunConfig, columns: list[ColumnSummary]) -> list[str]:
    """How to use a column of links of the table itself."""
    names = {one.name for one in columns}
    if config.source.edges is not None or not {ITEM_COLUMN, LINKS_COLUMN} <= names:
        return []
    return [
        f"the column {LINKS_COLUMN!r} may list links between items; "
        f"--set source.edges={quote(config.source.path)} uses them"
    ]


def _read_rest(config: RunConfig, cache: Path, error: SourceError) -> tuple[OpenedSource, Collection]:
    """What can be read with missing values, or else without labels."""
    options = replace(source_options(config.source), allow_missing=True)
    for attempt in (options, replace(options, labeled=False)):
        try:
            source = open_source(attempt, cache)
            return source, source.read(cache)
        except SourceError:
            continue
    raise error


def _block_problem(config: RunConfig, source: OpenedSource, found: Collection, said: list[str]) -> str:
    """Why the features stage would refuse the items; adds what the choice of extractors reports to `said`."""
    lacking = find_lacking(found)
    try:
        refuse_lacking(plan_blocks(config.features, source, lacking, said.append), source.parts, lacking)
    except (ConfigError, SourceError) as error:
        return str(error)
    return ""


def _files(source: OpenedSource) -> list[str]:
    if isinstance(source.inner, ImageFolder):
        return [str(source.inner.folder), *(str(part.path) for part in source.inner.label_parts)]
    found = [getattr(source.inner, name, None) for name in ("path", "folder", "labels_path")]
    return [str(one) for one in found if isinstance(one, Path)]


def _label_counts(found: Collection) -> dict[str, int]:
    counts = (found.labels == 1).sum(axis=0).tolist()
    pairs = sorted(zip(found.label_names, counts, strict=True), key=lambda pair: -pair[1])
    return dict(pairs)


def _summarize_part(part: Part) -> PartSummary:
    items = sum(bool(digest) for digest in part.digests)
    if part.X is not None:
        import numpy as np

        missing = int(np.isnan(part.X).sum()) if isinstance(part.X, np.ndarray) else 0
        names = list(part.feature_names or [])
        return PartSummary(part.name, part.content, items, part.X.shape[1], names, missing)
    paths = [path for path in part.paths or [] if path is not None]
    formats = Counter(path.suffix.lower() or "no extension" for path in paths)
    sizes = _image_sizes(paths) if part.content == "images" else ""
    return PartSummary(part.name, part.content, items, formats=dict(formats.most_common()), sizes=sizes)


def _image_sizes(paths: list[Path]) -> str:
    """Range of the sizes of some images, evenly chosen, by their headers."""
    found = [size for path in paths[:: max(1, len(paths) // _SAMPLED)] if (size := _header_size(path))]
    if not found:
        return ""
    sides = [sorted({size[side] for size in found}) for side in (0, 1)]
    width, height = (f"{one[0]}" if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in sides)
    return f"{width} x {height} pixels"


def _header_size(path: Path) -> tuple[int, int] | None:
    """Width and height; None for a damaged image, which the features stage reports."""
    import struct
    import warnings

    from PIL import Image

    from embedding_core.features.images import FORMATS

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large images, which are not decoded here
            with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
                return image.size
    except (OSError, ValueError, ArithmeticError, LookupError, SyntaxError, TypeError, struct.error):
        return None
    except (EOFError, MemoryError, Image.DecompressionBombError):
        return None


def _columns(source: OpenedSource, found: Collection) -> list[ColumnSummary]:
    """The columns of a table."""
    inner = source.inner
    if not isinstance(inner, TableSource | TextTable):
        return []
    kinds = inner.kinds()
    roles = inner.roles(kinds)
    uses: Mapping[str, str] = {
        **dict.fromkeys(_feature_columns(roles, source, found), "feature"),
        **{name: use for use in ("id", "text") for name in kinds if _is_recognized(found, use, name)},
        **({roles.split: "split"} if roles.split and found.split is not None else {}),
        **dict.fromkeys(roles.labels, "label"),
    }
    return [ColumnSummary(name, kind, uses.get(name, "not used")) for name, kind in kinds.items()]


def _is_recognized(found: Collection, use: str, column: str) -> bool:
    return found.recognized.get(use) == f"column {quote(column)}"


def _feature_columns(roles: Roles, source: OpenedSource, found: Collection) -> set[str]:
    """Columns of the features by their names: themselves, `color=red` or `clip[0]`."""
    names = {name for part in found.parts for name in part.feature_names or []}
    names |= {name.rpartition("[")[0] for name in names if name.endswith("]")}
    names |= {name.partition("=")[0] for name in names if "=" in name}
    counted = roles.chosen and not source.options.features
    return names | (set(roles.numbers) if counted else set())
