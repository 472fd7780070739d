"""`python -m tests.hostile.child ARGUMENTS...`: the command without Prefect, which starts slowly."""

import sys

from flows.cli import start
from flows.runner import Run


def leave_out_prefect() -> None:
    """Make runs of this process run their stages as plain functions."""
    Run.execute = lambda run, verbose=False: run.run_stages()  # type: ignore


if __name__ == "__main__":
    leave_out_prefect()
    sys.exit(start())
