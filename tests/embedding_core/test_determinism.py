"""The same input gives the same bytes; one and two threads agree to 1e-10. All public estimators at once."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.core_estimators import ALL_NAMES, fresh, outputs, partly_labeled, threaded_results

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of all estimators in this process with one thread, and in other processes with one and two."""
    folder = tmp_path_factory.mktemp("threads")
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    with contextlib.ExitStack() as stack:  # waits for the processes
        processes = {}
        for threads in (1, 2):
            environment = {
                **os.environ,
                **dict.fromkeys(libraries, str(threads)),
                "OMP_WAIT_POLICY": "PASSIVE",
            }
            command = [sys.executable, "-m", "tests.core_estimators", str(folder / f"{threads}.npz")]
            processes[threads] = stack.enter_context(subprocess.Popen(command, env=environment))
        with threadpool_limits(1):
            found = {"here": threaded_results()}
    for threads, process in processes.items():
        assert process.returncode == 0
        with np.load(folder / f"{threads}.npz") as file:
            found[threads] = dict(file)
    return found


def parts_of(name, results):
    parts = [part for part in results["here"] if part.startswith(f"{name} ")]
    assert parts
    return parts


@pytest.mark.parametrize("name", ALL_NAMES)
def test_two_processes_give_the_same_bytes(name, results):
    for part in parts_of(name, results):
        assert results["here"][part].tobytes() == results[1][part].tobytes(), part


@pytest.mark.parametrize("name", ALL_NAMES)
def test_one_and_two_threads_agree(name, results):
    for part in parts_of(name, results):
        one, two = results[1][part], results[2][part]
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-10 * np.abs(one).max(), err_msg=part)


def test_results_with_two_threads_were_computed_separately(results):
    assert any(results[1][part].tobytes() != results[2][part].tobytes() for part in results[1])


def test_one_and_two_threads_agree_if_distances_are_tied(results):
    one, two = (results[threads]["equal distances"] for threads in (1, 2))
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-10 * np.abs(one).max())


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_second_fit_gives_the_same_bytes(name):
    X, y = partly_labeled()
    model = fresh(name).fit(X, y)
    first = {part: values.tobytes() for part, values in outputs(model, X).items()}
    for again in (fresh(name).fit(X, y), model.fit(X, y)):
        assert {part: values.tobytes() for part, values in outputs(again, X).items()} == first
