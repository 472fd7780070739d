"""What `mlflow models serve` does with a model: the columns it takes, what it answers, and who loads it.

MLflow loads a model through a module that its description names. Ours reads the skops file with the list of
trusted types of this program; nothing is unpickled, and no list inside the file is trusted.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

ColumnKind = Literal["file", "text", "number", "numbers"]
LABELS, SCORES = "labels", "scores"
_FOLDER = "extractors"
_DESCRIPTION, _CONDA, _PYTHON = "MLmodel", "conda.yaml", "python_env.yaml"


@dataclass(frozen=True)
class ServedModel:
    """How a model is served.

    Parameters
    ----------
    loader : str
        Module with a function `_load_pyfunc(folder)`.
    columns : mapping of str to {"file", "text", "number", "numbers"}
        What a request contains for each item; empty: rows of `width` numbers without names.
    width : int
        Number of features.
    example : sequence
        One item: a value for each column, otherwise a row of numbers. Empty if there is none.
    arrays : mapping of int to mapping
        What extractors have learned, by the place of their block; see `load_arrays`.
    """

    loader: str
    columns: Mapping[str, ColumnKind]
    width: int
    example: Sequence[Any] = ()
    arrays: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)

    def signature(self) -> Any:
        """Inputs and outputs for MLflow."""
        from mlflow.models import ModelSignature
        from mlflow.types import ColSpec, DataType, Schema, TensorSpec
        from mlflow.types.schema import AnyType, Array, Map

        # A column of type "binary" would refuse paths in a request.
        kinds: dict[str, Any] = {
            "file": AnyType(),  # type: ignore[no-untyped-call]
            "text": DataType.string,
            "number": DataType.double,
            "numbers": Array(DataType.double),
        }
        rows: list[Any] = [TensorSpec(np.dtype(np.float32), (-1, self.width))]
        named: list[Any] = [ColSpec(kinds[kind], name) for name, kind in self.columns.items()]
        answer: list[Any] = [ColSpec(Array(DataType.string), LABELS), ColSpec(Map(DataType.double), SCORES)]
        return ModelSignature(inputs=Schema(named or rows), outputs=Schema(answer))

    def input_example(self) -> Any:
        """One item as MLflow stores it beside the model; None if there is none."""
        if not len(self.example):
            return None
        if not self.columns:
            return np.asarray([self.example], dtype=np.float32)
        import pandas as pd

        return pd.DataFrame([dict(zip(self.columns, self.example, strict=True))])


@dataclass(frozen=True)
class ServedFlavor:
    """Saves a model for MLflow in two ways: as a scikit-learn estimator, and as the function that is served.

    Parameters
    ----------
    sklearn : module
        `mlflow.sklearn`.
    served : ServedModel
    """

    sklearn: Any
    served: ServedModel

    def save_model(self, path: str, mlflow_model: Any, sk_model: Any, **options: Any) -> None:
        """Write the files of a model; MLflow calls this."""
        from mlflow import pyfunc

        options.pop("validate_serving_input", None)
        self.sklearn.save_model(sk_model, path, mlflow_model=mlflow_model, **options)
        pyfunc.add_to_model(
            mlflow_model,
            loader_module=self.served.loader,
            conda_env=_CONDA,
            python_env=_PYTHON,
        )
        for place, arrays in self.served.arrays.items():
            file = _arrays_file(Path(path), place)
            file.parent.mkdir(exist_ok=True)
            np.savez(file, allow_pickle=False, **arrays)
        mlflow_model.save(str(Path(path) / _DESCRIPTION))


def load_arrays(folder: Path, place: int) -> dict[str, np.ndarray]:
    """What the extractor of a block has learned, from the folder of a model."""
    payload = _arrays_file(folder, place).read_bytes()
    with np.load(io.BytesIO(payload), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _arrays_file(folder: Path, place: int) -> Path:
    return folder / _FOLDER / f"{place}.npz"
