"""State that one invocation of the program shares between the command line and its runs."""

from dataclasses import dataclass, field

from flows.terminal import TerminalReporter
from tasks.reporter import Reporter


@dataclass
class Session:
    """One invocation of the program.

    Attributes
    ----------
    reporter : Reporter
        Receives messages and progress.
    recomputed : list of str
        Labels of stages that were recomputed on request. A resumed run skips these.
    prefect_failed : bool
        Prefect failed during the run. Its threads would retry for minutes, so the process must not wait
        for them at exit.
    """

    reporter: Reporter = field(default_factory=TerminalReporter)
    recomputed: list[str] = field(default_factory=list)
    prefect_failed: bool = False
