"""Models as bytes: the same in every process, loaded only if every type is trusted."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from storage import limits
from storage.artifacts import models
from storage.artifacts.models import dump_model, load_model
from storage.errors import StoreError

TRUSTED = ("tests.storage.test_models.Shifted", "scipy.sparse._csr.csr_matrix")


class Shifted(BaseEstimator):
    """A stand-in for one of our estimators."""

    def __init__(self, shift: float = 0.0, names: Any = None) -> None:
        self.shift = shift
        self.names = names

    def fit(self, X: np.ndarray) -> "Shifted":
        self.mean_ = X.mean(axis=0) + self.shift
        self.shared_ = {"same": self.mean_, "graph": sparse.csr_matrix(np.diag(X[0]))}
        self.names_ = list(self.names or [])
        return self


def fitted() -> Shifted:
    names = "".join(["sk", "y"]), "sky", "file", "__id__", "1"
    return Shifted(1.0, names).fit(np.arange(12.0).reshape(4, 3))


def pipeline() -> Any:
    X = np.random.default_rng(0).normal(size=(30, 3))
    return make_pipeline(StandardScaler(), SVC()).fit(X, X[:, 0] > 0)


def test_a_model_keeps_its_state() -> None:
    found = load_model(dump_model(fitted()), TRUSTED)
    assert isinstance(found, Shifted)
    assert found.get_params() == {"shift": 1.0, "names": ("sky", "sky", "file", "__id__", "1")}
    np.testing.assert_array_equal(found.mean_, fitted().mean_)
    np.testing.assert_array_equal(found.shared_["graph"].toarray(), np.diag([0.0, 1.0, 2.0]))
    assert found.shared_["same"] is found.mean_
    assert found.names_ == ["sky", "sky", "file", "__id__", "1"]


def test_a_model_predicts_the_same() -> None:
    X = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_array_equal(load_model(dump_model(pipeline()), ()).predict(X), pipeline().predict(X))


@pytest.mark.slow
def test_the_same_model_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "import sys; from tests.storage.test_models import *; keep = [object() for _ in range(999)]; "
        "sys.stdout.write(dump_model(fitted()).hex() + ' ' + dump_model(pipeline()).hex())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    elsewhere = [bytes.fromhex(payload) for payload in done.stdout.decode().split()]
    assert elsewhere == [dump_model(fitted()), dump_model(pipeline())]
    assert [dump_model(load_model(payload, TRUSTED)) for payload in elsewhere] == elsewhere


def test_a_type_that_is_not_trusted_is_refused_by_name() -> None:
    with pytest.raises(StoreError, match=r"tests\.storage\.test_models\.Shifted"):
        load_model(dump_model(fitted()), ())


def test_a_forged_type_is_refused_before_it_is_constructed() -> None:
    payload = dump_model(pipeline())
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                schema = json.loads(data) | {"__class__": "Popen", "__module__": "subprocess"}
                data = json.dumps(schema).encode()
            new.writestr(name, data)
    with pytest.raises(StoreError, match=r"subprocess\.Popen"):
        load_model(target.getvalue(), TRUSTED)


class Explosive:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize(
    "payload",
    [b"", b"PK", pickle.dumps(Explosive()), dump_model(fitted())[:200], dump_model(fitted())[:-40]],
    ids=["empty", "magic", "pickle", "cut", "cut late"],
)
def test_bytes_that_are_not_a_model_are_refused(payload: bytes) -> None:
    with pytest.raises(StoreError, match="are not a model"):
        load_model(payload, TRUSTED)


class Stateless:
    def __getstate__(self) -> Any:
        raise TypeError("an open connection")


def test_what_cannot_be_saved_is_refused_with_the_reason() -> None:
    model = fitted()
    model.connection_ = Stateless()
    with pytest.raises(StoreError, match="cannot be saved as skops: an open connection"):
        dump_model(model)


# Sizes are checked before anything is read.


def archive_bytes(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def test_a_huge_description_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_LARGEST_COMPRESSED", 10_000)
    payload = archive_bytes({"schema.json": b"[" + b"[]," * 5_000})
    with pytest.raises(
        StoreError, match="description of the model has 15,001 bytes; at most 10,000 are read"
    ):
        load_model(payload, [])
    assert len(dump_model(list(range(1_000)))) > 20_000
    load_model(dump_model(list(range(1_000))), [])


def test_huge_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL", 10**6)
    matrix = io.BytesIO()
    sparse.save_npz(
        matrix, sparse.csr_array((np.zeros(10**5), np.zeros(10**5, int), [0, 10**5]), shape=(1, 1))
    )
    for name, inner in (("0.npz", matrix.getvalue()), ("0.bin", bytes(10**6))):
        with pytest.raises(StoreError, match=r"The model needs about .* are plausible for a file of"):
            load_model(archive_bytes({"schema.json": b"{}", name: inner}), [])


def test_a_deep_description_is_refused() -> None:
    with pytest.raises(StoreError, match="not a model: RecursionError") as caught:
        load_model(archive_bytes({"schema.json": b"[" * 200_000}), [])
    assert len(str(caught.value)) < 1000
