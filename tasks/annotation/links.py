"""Links of the items to annotate: to the items of the model's fit, and to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.artifacts.labeled_items import LabeledItems
from storage.errors import ConfigError, SourceError
from storage.quoting import list_names
from storage.sources.edges import count_by_position
from tasks.annotation.model import FittedModel
from tasks.settings import SourceSettings
from tasks.stage import Workspace
from tasks.stages.affinity import digest_edges, given_edges

GIVE = "give them with --set source.edges=FILE"
_LISTED = 5


@dataclass(frozen=True)
class GivenLinks:
    """The file of links of the items to annotate, with the digest that the stage is keyed by."""

    place: SourceSettings
    digest: str


def links_of_place(
    model: FittedModel, place: SourceSettings | None, workspace: Workspace
) -> GivenLinks | None:
    """The given links if the model uses links; None otherwise.

    Raises
    ------
    SourceError
        The model uses links but does not know the ids of its items.
    """
    if place is None or place.edges is None or not model.annotator.uses_links:
        return None
    if model.labeled is None:
        raise SourceError(
            f"{place.edges}: the model does not know the ids of its items, because an older version tracked "
            "it, so new items cannot be linked to them. Train again, or leave out source.edges."
        )
    return GivenLinks(place, digest_edges(place, workspace)) if model.labeled.item_ids is not None else None


def check_promise(model: FittedModel, links: GivenLinks | None) -> None:
    """Raise ConfigError if precision is to be promised without the links that the model was judged with."""
    if links is None and _trained_with_links(model) and model.annotator.uses_links:
        raise ConfigError(
            "--precision: the model uses links, and its scores for labeled items assume them, so nothing can "
            f"be promised for items without links; {GIVE}, or leave out --precision."
        )


def _trained_with_links(model: FittedModel) -> bool:
    return model.labeled is not None and model.labeled.item_ids is not None


def describe_links(model: FittedModel, unused: bool, links: Any) -> dict[str, Any] | None:
    """How many items have links, and a sentence about it; None if neither items nor model have links."""
    trained = _trained_with_links(model)
    if links is not None:
        items, linked = links.shape[0], int(np.count_nonzero(np.diff(links.indptr)))
        rest = "" if linked == items else "; the others are placed by their features alone"
        return _finding(linked, int(links.nnz), f"{linked:,} of {items:,} items have links{rest}.")
    if unused:
        why = "its labels follow from features alone" if trained else "it was trained without links"
        return _finding(0, 0, f"not used by this model: {why}.")
    if trained and model.annotator.uses_links:
        return _finding(
            0,
            0,
            "none given: the model uses links, and the items are placed by their features alone, so expect "
            f"less than in the training; {GIVE}.",
        )
    return None


def _finding(linked: int, count: int, sentence: str) -> dict[str, Any]:
    return {"linked_items": linked, "links": count, "sentence": sentence}


def read_links(
    given: GivenLinks,
    labeled: LabeledItems,
    ids: Sequence[str],
    chosen: NDArray[np.bool_],
    unlabeled: bool,
    workspace: Workspace,
) -> Any:
    """Read the links of the chosen items.

    Parameters
    ----------
    given : GivenLinks
    labeled : LabeledItems
        Has the ids of the n items of the fit.
    ids : sequence of str
        All items of the source.
    chosen : ndarray of bool
        The m items to annotate.
    unlabeled : bool
        Whether the items without labels of a collection are annotated. If it is that of the model, an id
        means the same item in both, and positions in the file count the items of the collection. Otherwise
        positions count the items of the fit, then the new ones.

    Returns
    -------
    csr_array of shape (m, n + m)
        Links to the items of the fit, then to each other.
    """
    from scipy.sparse import csr_array, hstack

    from embedding_core.graph.supplied import graph_from_edges

    known = labeled.item_ids or []
    n, count = len(known), len(ids)
    rows = np.arange(n, n + count)
    if unlabeled and _same_place(given.place, labeled):
        place_of = {name: row for row, name in enumerate(known)}
        rows = np.array([place_of.get(name, n + k) for k, name in enumerate(ids)], dtype=np.int64)
        i, j, w = given_edges(given.place, given.digest, ids, workspace)
        i, j = rows[i], rows[j]
    else:
        _check_names(given.place, labeled, ids)
        i, j, w = given_edges(given.place, given.digest, [*known, *ids], workspace)
    found = graph_from_edges(i, j, w, n + count)[rows[chosen]]
    columns = n + np.flatnonzero(chosen)
    return csr_array(hstack([found[:, :n], found[:, columns]], format="csr"))


def _same_place(place: SourceSettings, labeled: LabeledItems) -> bool:
    trained = str(labeled.source.get("path") or "")
    return Path(place.path).absolute() == Path(trained).absolute()


def _check_names(place: SourceSettings, labeled: LabeledItems, ids: Sequence[str]) -> None:
    """Raise SourceError if the ends of links would be ambiguous."""
    known = labeled.item_ids or []
    if count_by_position(Path(str(place.edges))):
        if labeled.unreadable:
            raise SourceError(
                f"{place.edges}: positions cannot name items here, because {labeled.unreadable} items of the "
                "model's collection were unreadable and have no place. Give links by id (columns source and "
                "target)."
            )
        return
    twice = sorted(set(known) & set(ids))
    if twice:
        raise SourceError(
            f"{place.path}: {len(twice)} of {len(ids)} new items have the id of an item of the training: "
            f"{list_names(twice[:_LISTED])}; so a link to it is ambiguous. Name a column of other ids with "
            "source.id, give links by position (columns i and j: first the items of the model, then the new "
            "ones), or annotate the collection itself with --unlabeled."
        )
