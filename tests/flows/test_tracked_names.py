"""Names of runs say what differs."""

from typing import Any

import pytest

from flows.config import RunConfig
from flows.tracked_names import describe_run


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        ({}, "run", "photos"),
        ({"affinity": {"n_neighbors": 15}}, "run", "photos · n_neighbors=15"),
        ({"embedding": {"methods": ["mlda"]}}, "run", "photos · mlda"),
        ({"embedding": {"methods": ["mlda", "dle"]}}, "run", "photos · mlda+dle"),
        ({"embedding": {"methods": ["mlda", "dle", "lpp", "pca"]}}, "run", "photos · 4 methods"),
        ({"features": {"color_moments": {"color_space": "hsv"}}}, "run", "photos · hsv"),
        ({"features": {"extractors": ["gabor", "bow_sift"]}}, "run", "photos · gabor+bow_sift"),
        ({"features": {"extractors": ["onnx:a/b.onnx"]}}, "run", "photos · extractors=onnx:a/b.onnx"),
        ({"features": {"scale": "unit"}, "name": "my run"}, "run", "my run"),
        (
            {"embedding": {"methods": ["mlda"], "params": {"mlda": {"k": 3}}}},
            "run",
            "photos · mlda · mlda.k=3",
        ),
        ({"embedding": {"methods": ["mlda"]}}, "auto", "photos · auto"),
        ({"home": "elsewhere", "executor": "serial", "tracking": {"experiment": "e"}}, "run", "photos"),
    ],
)
def test_names(given: dict[str, Any], kind: Any, expected: str) -> None:
    assert describe_run(RunConfig(**given), "photos", kind) == expected


def test_long_names_are_cut() -> None:
    params = {"mlda": {f"parameter_{number}": number for number in range(30)}}
    name = describe_run(RunConfig(embedding={"params": params}), "photos")
    assert len(name) == 120
    assert name.endswith("…")
