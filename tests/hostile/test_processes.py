"""Every hostile case of the group "processes"."""

import pytest

from tests.hostile.test_hostile import run_group


@pytest.mark.slow
def test_every_case() -> None:
    run_group("processes")
