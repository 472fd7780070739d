"""The stages by name, and which part of them a run goes through."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches

from storage.errors import ConfigError

STAGES = (
    "ingest",
    "features",
    "affinity",
    "correlation",
    "embedding",
    "model",
    "evaluation",
    "report",
    "tracking",
)

# Labels of stages that this command has computed anew because it was asked to: who resumes it need not again.
RENEWED: ContextVar[list[str]] = ContextVar("labelscape_renewed")


def check_stages(names: Sequence[str]) -> None:
    """Refuse names that are no stage."""
    for name in names:
        if name not in STAGES:
            near = get_close_matches(name, STAGES, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{name}: no such stage.{hint} The stages are {', '.join(STAGES)}.")


@dataclass(frozen=True)
class Span:
    """Which stages a run computes.

    Attributes
    ----------
    refresh : list of str
        Computed even where the store has them.
    since : str, optional
        Computed too; the stages before it are taken as the last run left them.
    until : str, optional
        The last one.
    done : list of str
        Labels of those that were computed anew already: not once more.
    """

    refresh: list[str] = field(default_factory=list)
    since: str | None = None
    until: str | None = None
    done: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse names that are no stage, and an end before the beginning."""
        done = [label.partition("[")[0] for label in self.done]
        check_stages([name for name in (*self.refresh, self.since, self.until, *done) if name])
        if self.since and self.until and STAGES.index(self.since) > STAGES.index(self.until):
            raise ConfigError(
                f"--from {self.since} --until {self.until}: {self.until} comes first; nothing would run."
            )

    def refreshes(self, stage: str, label: str) -> bool:
        """Whether a stage is computed whatever the store has."""
        return (stage in self.refresh or stage == self.since) and label not in self.done

    def leaves(self, stage: str) -> bool:
        """Whether a stage is taken as the last run left it."""
        return self.since is not None and STAGES.index(stage) < STAGES.index(self.since)

    def reaches(self, stage: str) -> bool:
        """Whether a stage comes before the end."""
        return self.until is None or STAGES.index(stage) <= STAGES.index(self.until)
