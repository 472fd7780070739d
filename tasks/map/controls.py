"""SLE-ML with two values of λ, each with a control of shuffled labels, as its paper recommends.

With a small λ items of one label come together whether their features agree or not. The control shows it: the
labels are shuffled among the labeled items before the fit. If the classes of the control look as separate as
the true ones, their separation says nothing about the features.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from embedding_core.registry import get_method, method_modules
from storage.artifacts.artifact import Artifact
from storage.artifacts.schemas import Embedding, pack_embedding
from tasks.dataset import load_dataset, load_graph
from tasks.stage import Stage, Workspace
from tasks.stages.embedding import Data, method_settings, takes_graph

METHOD = "sle_ml"
BALANCES = (0.9, 0.5)
"""The two values of λ that the paper compares."""
GROUP = "SLE-ML: two λ, true and shuffled labels"
_SEED = 0


def variant(balance: float, shuffled: bool) -> str:
    """Variant of the stage."""
    return f"{METHOD} {balance:g}{' shuffled' if shuffled else ''}"


def titles() -> dict[str, tuple[str, str]]:
    """Title and remark of the view of each variant, true labels first."""
    found = {}
    for shuffled in (False, True):
        for balance in BALANCES:
            title = f"SLE-ML, λ = {balance:g}{', labels shuffled' if shuffled else ''}"
            remark = "A control: separation here is not real" if shuffled else ""
            found[variant(balance, shuffled)] = (title, remark)
    return found


def control_stages(params: Mapping[str, Any], data: Data, workspace: Workspace) -> Iterator[Stage]:
    """Build the stages that fit SLE-ML with both values of λ, with true and with shuffled labels."""
    for shuffled in (False, True):
        for balance in BALANCES:
            yield _stage({**params, "balance": balance}, shuffled, data, workspace)


def _stage(params: Mapping[str, Any], shuffled: bool, data: Data, workspace: Workspace) -> Stage:
    return Stage(
        name="map",
        variant=variant(params["balance"], shuffled),
        code=(*method_modules(METHOD, params), "embedding_core.annotator"),
        params={"method": method_settings(METHOD, params), "scale": data.scale, "shuffled": shuffled},
        inputs=data.inputs(takes_graph(METHOD, params, data), workspace.store),
        produce=lambda: _fit(params, shuffled, data, workspace),
    )


def _fit(params: Mapping[str, Any], shuffled: bool, data: Data, workspace: Workspace) -> Artifact:
    """Place all items. In a control, an item is shown where its labels were used.

    So the labels of the items on the map are those that the fit has seen.
    """
    from embedding_core.annotator import Annotator

    assert data.manifest and data.features and get_method(METHOD).sees_all_rows
    items = load_dataset(workspace.store, data.manifest, data.features)
    order = np.arange(len(items.ids))
    if shuffled:
        labeled = np.flatnonzero((items.Y >= 0).all(axis=1))
        order[labeled] = np.random.default_rng(_SEED).permutation(labeled)
    uses_graph = takes_graph(METHOD, params, data)
    graph = load_graph(workspace.store, data.affinity) if uses_graph else None
    annotator = Annotator(method=METHOD, params=dict(params), scale=data.scale, blocks=items.blocks)
    model = annotator.fit(items.X, items.Y[order], graph).model_
    coordinates = np.empty_like(model.embedding_)
    coordinates[order] = model.embedding_
    return pack_embedding(Embedding(items.ids, coordinates, model.eigenvalues_, METHOD))
