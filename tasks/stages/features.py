"""Features: one row per item, stored in portions so that a changed item rewrites only one portion."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.artifacts import columns
from storage.artifacts.artifact import Artifact
from storage.artifacts.keys import ArtifactRef, Recipe, canonical_json
from storage.artifacts.schemas import SCHEMA_VERSION, Features, Parts, pack_features, pack_parts
from storage.artifacts.store import ArtifactStore
from storage.errors import SourceChanged, SourceError
from storage.sources import OpenedSource
from storage.sources.base import Part, PartName, combine_digests, digest_items
from tasks.executor import Executor
from tasks.reporter import Advance
from tasks.settings import SourceSettings
from tasks.stage import Stage, Workspace, digest_of, fingerprint, task_code
from tasks.stages.chunks import PART_STAGE, split_items
from tasks.stages.ingest import changed_meanwhile, explain_change, items_of, part_digest
from tasks.stages.known_rows import SKIPPED, KnownRows, load_known_rows
from tasks.stages.learning import LEARNED, load_learned

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from embedding_core.features.base import FeatureExtractor
    from embedding_core.features.extraction import Row

# The recipe of features that the source itself supplies.
GIVEN = "given"
# The recipe of features in a table of their own, `table:PATH`.
TABLE = "table"
# Key of a recipe: whether items without features are filled later instead of being an error.
MISSING = "missing"
# Key of a recipe: the columns that a model knows, for the table of new items.
COLUMNS = "columns"
# Key of a recipe: digests of the files of a model that computes the features.
FILES = "files"
# Metadata of a portion: the number of items without features.
_UNREADABLE = "unreadable"
# Skipped items that are shown with the reason.
_LISTED = 5
# Starting threads takes longer than extracting this many files.
_FEW_FILES = 8
_EXTRACTION = "embedding_core.features.extraction"


def recipe_stage(
    recipe: Mapping[str, Any],
    place: SourceSettings,
    source: OpenedSource,
    manifest: ArtifactRef | None,
    workspace: Workspace,
    variant: str = "",
    check: Callable[[], None] = lambda: None,
) -> Stage:
    """Features of the items of a manifest by the recipe of one extractor; labels do not matter.

    `variant` names the block if several are joined. `check` may raise before the first file is read.
    """
    items = part_digest(manifest, items_of(find_part(recipe, source.parts)), workspace.store)
    return Stage(
        name="features",
        variant=variant,
        code=_modules(recipe, source),
        params={**recipe, "strict": place.strict},
        inputs={"items": items, **_learned_input(recipe)},
        produce=lambda: _compute(recipe, place, source, items, workspace, variant, check),
        produce_all=lambda: _compute(recipe, place, source, items, workspace, variant, check, reuse=False),
    )


def _learned_input(recipe: Mapping[str, Any]) -> dict[str, str | None]:
    """What the extractor learned, as an input of the stage; None if it has not learned yet."""
    if LEARNED not in recipe:
        return {}
    known = recipe[LEARNED]
    ref = ArtifactRef("features", known["key"], known["digest"], "model", 1) if known else None
    return {LEARNED: digest_of(ref)}


def extractor_recipe(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """How features are computed: extractor, parameters, its code and the files of its model as they are now.

    The recipe is part of the stage's key and is stored with the features and with every model fitted on them.
    """
    code = combine_digests(fingerprint((_extractor_module(name),)).values())
    recipe = {"extractor": name, name: dict(parameters), "code": code}
    files = make_extractor(recipe).file_digests()
    return {**recipe, FILES: files} if files else recipe


def make_extractor(recipe: Mapping[str, Any]) -> "FeatureExtractor":
    """Build the extractor that a recipe describes, without what it learned."""
    from embedding_core.features.registry import extractor_class

    name = recipe["extractor"]
    return extractor_class(name)(**recipe[name])


def ready_extractor(recipe: Mapping[str, Any], store: ArtifactStore) -> "FeatureExtractor":
    """Build the extractor that a recipe describes, with what it learned."""
    extractor = make_extractor(recipe)
    return extractor.with_learned(load_learned(recipe, store)) if LEARNED in recipe else extractor


def read_content(extractor: str) -> str:
    """Content of the items that an extractor reads."""
    from embedding_core.features.registry import extractor_class

    return "features" if extractor in (GIVEN, TABLE, "links") else extractor_class(extractor).reads


def find_part(recipe: Mapping[str, Any], parts: Iterable[PartName]) -> str:
    """Name of the part of the items that a recipe reads."""
    if recipe["extractor"] == GIVEN:
        return supplied_part(recipe, [part.name for part in parts])
    if recipe["extractor"] == TABLE:  # only the ids of the items matter
        return next(part.name for part in parts)
    reads = read_content(recipe["extractor"])
    return next(part.name for part in parts if part.content == reads)


def supplied_part(recipe: Mapping[str, Any], names: Sequence[str]) -> str:
    """Name of the supplied block that a recipe reads; of new items only this one may have been read."""
    wanted = str(recipe.get("part", GIVEN))
    return GIVEN if wanted not in names and GIVEN in names else wanted


def feature_code(recipe: Mapping[str, Any], source: OpenedSource) -> dict[str, str]:
    """Fingerprint of the code that computes the features of a source."""
    return task_code(_modules(recipe, source), __name__)


def _modules(recipe: Mapping[str, Any], source: OpenedSource) -> tuple[str, ...]:
    """The extractor's module and the loop over files, or the reader that supplies the features."""
    if recipe["extractor"] == GIVEN:
        return (source.module,)
    if recipe["extractor"] == TABLE:
        return ("storage.sources.feature_table",)
    return (_EXTRACTION, _extractor_module(recipe["extractor"]))


def _extractor_module(name: str) -> str:
    from embedding_core.features.registry import extractor_class

    return extractor_class(name).__module__


def compute_features(
    ids: Sequence[str],
    part: Part,
    rows: range,
    recipe: Mapping[str, Any],
    workspace: Workspace,
    advance: Advance,
    known: KnownRows | None = None,
) -> Features:
    """Features of some rows of a collection; `run`, `auto` and `annotate` all use this function.

    Parameters
    ----------
    ids : sequence of str
        Ids of all items.
    part : Part
        What the items consist of, as far as this recipe reads it.
    rows : range
    recipe : mapping
        See `extractor_recipe`.
    workspace : Workspace
        Its executor extracts several files at once; its store holds what an extractor learned.
    advance : callable
        Called with the number of files done.
    known : KnownRows, optional
        Rows that need not be extracted again.
    """
    names, digests = _slice(ids, rows), _slice(part.digests, rows)
    if recipe["extractor"] in (GIVEN, TABLE):
        X = part.X[rows.start : rows.stop]  # type: ignore[index]  # X is given
        return Features(names, digests, X, None, recipe, part.feature_names)
    extractor = ready_extractor(recipe, workspace.store)
    missing = [row for row in rows if known is None or part.digests[row] not in known]
    made = _extract(part, missing, extractor, workspace.executor, advance)
    if extractor.file_digests() != recipe.get(FILES, {}):
        raise SourceChanged(
            f"a file of the extractor {extractor.name} changed during extraction", "run again"
        )
    if known is not None:
        made |= {row: known.row(part.digests[row]) for row in rows if row not in made}
    X = stack_rows([made[row][0] for row in rows], extractor)
    return Features(names, digests, X, [made[row][1] for row in rows], recipe, extractor.feature_names())


def stack_rows(rows: "Sequence[np.ndarray | csr_array | None]", extractor: "FeatureExtractor") -> Any:
    """One matrix of rows; an item without features has a row of NaN, or an empty one in a sparse matrix."""
    if extractor.terms == "none":
        blank = np.full(extractor.n_features, np.nan, dtype=np.float32)
        return np.stack([blank if row is None else row for row in rows])
    from scipy.sparse import csr_array, vstack

    empty = csr_array((1, extractor.n_features), dtype=np.float32)
    return vstack([empty if row is None else row for row in rows], format="csr")


def _extract(
    part: Part,
    rows: Sequence[int],
    extractor: "FeatureExtractor",
    executor: Executor,
    advance: Advance,
) -> "dict[int, Row]":
    from embedding_core.features.extraction import FileChanged, extract_many

    made: dict[int, Row] = {row: _lacking(part) for row in rows if not part.digests[row]}
    files = [(row, *file) for row in rows for file in part.files(row)]
    map_files = executor.map if len(files) > _FEW_FILES else map
    contents, digests = [content for _, content, _ in files], [digest for _, _, digest in files]
    try:
        found = zip(files, extract_many(contents, extractor, digests, map_files), strict=True)
        for row, group in groupby(found, lambda pair: pair[0][0]):
            made[row] = _mean_row([one for _, one in group])
            advance(len(made))
    except FileChanged as error:
        raise explain_change(error) from error
    return made


def _lacking(part: Part) -> "Row":
    """The row of an item without this part: missing values, which `features.fill` can replace."""
    return (None, "the item has no text") if part.content == "text" else (None, None)


def _mean_row(rows: "Sequence[Row]") -> "Row":
    """The mean of the readable rows of one item, or the reason why none is readable."""
    found = [vector for vector, _ in rows if vector is not None]
    if len(rows) == 1 or not found:
        return rows[0]
    return np.stack(found).mean(axis=0, dtype=np.float64).astype(np.float32), None


def _advance_after(done: int, advance: Advance) -> Advance:
    """Report the progress of a portion, `done` items after the start."""
    return lambda count: advance(done + count)


def load_skipped(store: ArtifactStore, ref: ArtifactRef) -> dict[str, str]:
    """Items that could not be read, with the reason."""
    metadata = store.read(ref).schema.metadata or {}
    return dict(json.loads(metadata.get(SKIPPED.encode(), b"{}")))


def _compute(
    recipe: Mapping[str, Any],
    place: SourceSettings,
    source: OpenedSource,
    items: str | None,
    workspace: Workspace,
    variant: str,
    check: Callable[[], None],
    reuse: bool = True,
) -> Artifact:
    check()
    collection = source.read(workspace.cache_dir)
    part = find_part(recipe, source.parts)
    if collection.part_digest(part) != items:
        raise changed_meanwhile(place.path)
    code = feature_code(recipe, source)
    known = load_known_rows(workspace.store, place, recipe, code, variant) if reuse else None
    content = collection.part(part)
    if recipe["extractor"] == TABLE:
        content = _join_table(recipe, collection.ids, place, workspace)
    portions = Portions(collection.ids, content, recipe, code, known, workspace)
    refs = portions.compute()
    _check_errors(portions.errors, len(collection.ids), place, workspace)
    packed = pack_parts(
        Parts(
            part=np.arange(len(refs)),
            keys=[ref.key for ref in refs],
            digests=[ref.digest for ref in refs],
            rows=np.array([ref.rows for ref in refs]),
        )
    )
    skipped = {SKIPPED: canonical_json(portions.errors)}
    return replace(packed, metadata={**packed.metadata, **skipped}, links=tuple(refs))


def _join_table(
    recipe: Mapping[str, Any], ids: Sequence[str], place: SourceSettings, workspace: Workspace
) -> Part:
    """The rows of a table of features for the items, with a line on how they were joined."""
    from storage.sources.feature_table import digest_table, join_table

    path = Path(recipe[TABLE]["path"])
    found = join_table(path, ids, recipe[MISSING], recipe.get(COLUMNS, ()))
    if recipe[FILES] != {path.name: digest_table(path)}:
        raise changed_meanwhile(str(path))
    if found.extra and place.strict:
        raise SourceError(
            f"table:{path}: {found.lines[-1]}. Remove them, or set source.strict=false to list them."
        )
    for line in found.lines:
        workspace.reporter.say(f"  {TABLE}:{path.name}: {line}")
    return found.part


class Portions:
    """Computes the portions of a collection from known and newly extracted rows.

    Without `known`, every portion is computed again even if the store holds it.
    """

    def __init__(
        self,
        ids: Sequence[str],
        part: Part,
        recipe: Mapping[str, Any],
        code: Mapping[str, str],
        known: KnownRows | None,
        workspace: Workspace,
    ) -> None:
        self.errors: dict[str, str] = {}
        self._ids = ids
        self._part = part
        self._recipe = recipe
        self._code = code
        self._known = known
        self._workspace = workspace

    def compute(self) -> list[ArtifactRef]:
        """Compute every portion in order; only one is in memory at a time.

        The workers of a cluster first store the portions of which no row is known.
        """
        refs = []
        with self._workspace.reporter.progress("features", len(self._ids)) as advance:
            stored = self._compute_on_workers(advance)
            for rows in split_items(self._ids):
                force = self._known is None and rows not in stored
                refs.append(self.portion(rows, _advance_after(rows.start, advance), force))
                advance(len(self._ids) if stored else rows.stop)
        return refs

    def _compute_on_workers(self, advance: Advance) -> Collection[range]:
        if not self._workspace.executor.shares_store or self._recipe["extractor"] in (GIVEN, TABLE):
            return ()
        from tasks.stages.portion_jobs import compute_on_workers

        given = self._ids, self._part, self._recipe, self._code
        return compute_on_workers(*given, self._known, self._workspace, advance)

    def portion(self, rows: range, advance: Advance, force: bool = False) -> ArtifactRef:
        """Compute and store the portion of some rows, unless it is stored; `force` computes it again."""
        ids, digests = _slice(self._ids, rows), _slice(self._part.digests, rows)
        recipe = Recipe(
            stage=PART_STAGE,
            variant="",
            code=self._code,
            params=self._recipe,
            inputs={"items": digest_items(ids, digests), "columns": self._part.columns_digest},
            schema=SCHEMA_VERSION,
        )
        store = self._workspace.store
        ref = store.compute(recipe, lambda: self._pack(rows, advance), force=force).ref
        sound = self._known.sound if self._known else set()
        if ref.key not in sound and store.details(ref)["metadata"].get(_UNREADABLE) != "0":
            reasons = columns.strings(store.read(ref, ["error"]), "error")
            self.errors |= {name: why for name, why in zip(ids, reasons, strict=True) if why is not None}
        return ref

    def _pack(self, rows: range, advance: Advance) -> Artifact:
        workspace, known = self._workspace, self._known
        found = compute_features(self._ids, self._part, rows, self._recipe, workspace, advance, known)
        packed = pack_features(found)
        unreadable = str(int((~found.readable).sum()))
        return replace(packed, metadata={**packed.metadata, _UNREADABLE: unreadable})


def _slice(values: Sequence[str], rows: range) -> list[str]:
    return list(values[rows.start : rows.stop])


def _check_errors(
    errors: Mapping[str, str], n_items: int, place: SourceSettings, workspace: Workspace
) -> None:
    """Report the number of unreadable items; raise if no item is readable, or if `strict` is set."""
    if not errors:
        return
    name, why = next(iter(errors.items()))
    if place.strict or len(errors) == n_items:
        how_many = (
            f"none of {n_items} items is readable"
            if len(errors) == n_items
            else f"{len(errors)} of {n_items} items are unreadable"
        )
        raise SourceError(
            f"{place.path}: {how_many}; the first is {name}: {why}. Fix or remove it"
            + (", or set source.strict=false to list such items and continue." if place.strict else ".")
        )
    workspace.reporter.say(f"  {len(errors)} of {n_items} items skipped as unreadable:")
    for name, why in list(errors.items())[:_LISTED]:
        workspace.reporter.say(f"    {name}: {why}")
    if len(errors) > _LISTED:
        workspace.reporter.say(f"    and {len(errors) - _LISTED} more; notes.csv of the report lists all")
