"""Real data sets as the protocols take them, and the plain methods to compare with."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

GRID = {"C": [0.3, 1.0, 3.0, 10.0], "gamma": [0.3, 1.0, 3.0]}
"""Twelve points; gamma in units of 1 / p."""


def read_table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels (n, K) or classes (n,), and the split that the source has, else empty strings."""
    table = pq.read_table(folder / name / f"{name}.parquet").to_pandas()
    X = table[[column for column in table if column[0] == "f" and column[1:].isdigit()]].to_numpy(np.float64)
    split = table["split"].to_numpy() if "split" in table else np.full(len(table), "")
    if "class" in table:
        return X, np.unique(table["class"].to_numpy(), return_inverse=True)[1], split
    labels = table[[column for column in table if column.startswith("label:")]].to_numpy(np.int8)
    return X, labels, split


def official(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, Y and the rows of the official split."""
    X, Y, split = read_table(folder, name)
    return X, Y, np.flatnonzero(split == "train"), np.flatnonzero(split == "test")


def mediamill(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The 29 labels with 46 positive rows or more, as the share of the paper's 27 comes to here."""
    X, Y, _ = read_table(folder, "mediamill_reduced")
    return X, np.ascontiguousarray(Y[:, Y.sum(axis=0) >= 46])


def msrc(folder: Path, color_space: str = "rgb") -> tuple[np.ndarray, np.ndarray]:
    """384 color moments and the 22 labels without the horse, by name of file as in a run."""
    from embedding_core.features.color_moments import ColorMoments

    return msrc_features(folder, ColorMoments(color_space=color_space))


def msrc_features(folder: Path, extractor: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features by an extractor and the 22 labels without the horse, by name of file as in a run."""
    from embedding_core.features.extraction import extract_many

    lines = sorted((folder / "msrc_v2" / "labels.csv").read_text(encoding="utf-8").splitlines()[1:])
    names, labels = zip(*(line.split(",") for line in lines), strict=True)
    known = sorted({one for text in labels for one in text.split("|") if one} - {"horse"})
    Y = np.array([[one in text.split("|") for one in known] for text in labels], dtype=np.int8)
    files = [folder / "msrc_v2" / "images" / name for name in names]
    with ThreadPoolExecutor(2) as pool:
        found = extract_many(files, extractor, map_files=pool.map)
        rows: dict[int, Any] = {number: row for number, (row, _) in enumerate(found)}
    return np.array([rows[number] for number in range(len(files))], dtype=np.float64), Y


class GridSVC(BaseEstimator):
    """One RBF-SVC a label on z-scored features, by three folds and the twelve points of `GRID`."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        self.scaler_ = StandardScaler().fit(X)
        Z, p = self.scaler_.transform(X), X.shape[1]
        grid = {"C": GRID["C"], "gamma": [factor / p for factor in GRID["gamma"]]}
        folds = KFold(3, shuffle=True, random_state=0)
        self.machines_ = [
            GridSearchCV(SVC(), grid, cv=folds, n_jobs=self.n_jobs).fit(Z, column) for column in Y.T
        ]
        return self

    def predict_scores(self, X: np.ndarray) -> np.ndarray:
        Z = self.scaler_.transform(X)
        return np.column_stack([expit(machine.decision_function(Z)) for machine in self.machines_])


class Forest(BaseEstimator):
    """500 trees for all labels at once."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        self.forest_ = RandomForestClassifier(500, random_state=0, n_jobs=self.n_jobs).fit(X, Y)
        return self

    def predict_scores(self, X: np.ndarray) -> np.ndarray:
        found = self.forest_.predict_proba(X)
        return np.column_stack(
            [p[:, list(c).index(1)] for p, c in zip(found, self.forest_.classes_, strict=True)]
        )
