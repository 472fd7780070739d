"""What a refresh did: its result in one line, its notices, and what happened to the champion."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.notifications import Notice
from flows.score_moves import ScoreMove
from flows.selection import SelectionResult


@dataclass(frozen=True)
class RefreshResult:
    """What a refresh did.

    Attributes
    ----------
    name : str
        The collection.
    cached : bool
        Whether nothing had changed, so nothing was done.
    causes : tuple of str
        What changed since the last refresh: items, settings, version.
    moves : tuple of ScoreMove
        Every score before and now.
    drop : str
        How far the best score fell, if by more than the tolerance.
    champion : str
        What happened to the champion; empty without `auto`.
    new_champion : bool
        Whether another model is champion now.
    annotated : int
        Number of items that were annotated.
    files : tuple of Path
        Their labels.
    merged : str
        What the answers that arrived since the last refresh changed.
    gained : tuple of str
        What labels that changed since the last model gained, in sentences.
    queue : tuple of Path
        Files of the items to label next, the page first.
    runs : mapping of str to str
        Id of each run by its kind.
    notes : tuple of str
        What could not be done.
    """

    name: str
    cached: bool = False
    causes: tuple[str, ...] = ()
    moves: tuple[ScoreMove, ...] = ()
    drop: str = ""
    champion: str = ""
    new_champion: bool = False
    annotated: int = 0
    files: tuple[Path, ...] = ()
    merged: str = ""
    gained: tuple[str, ...] = ()
    queue: tuple[Path, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The result in one line."""
        if self.cached:
            return f"{self.name}: unchanged since the last refresh"
        what = f"dropped: {self.drop}" if self.drop else self.champion or "refreshed"
        return f"{self.name}: {what}"

    def notices(self, collection: str) -> list[Notice]:
        """What people should know about a collection."""
        facts = {"causes": list(self.causes), "runs": dict(self.runs)}
        because = f" Changed: {'; '.join(self.causes)}." if self.causes else ""
        found = []
        if self.drop:
            found.append(Notice("drop", collection, f"{self.drop}.{because}", facts))
        if self.new_champion:
            found.append(Notice("champion", collection, f"{self.champion}.{because}", facts))
        return found


def describe_champion(done: SelectionResult) -> tuple[str, bool]:
    """What happened to the champion, and whether another model has the title now."""
    settled, before, winner = done.settled, done.champion, done.choice.winner
    if settled is None:
        return f"{winner.candidate.label} is the best; nothing was registered", False
    now = settled.champion
    if done.verdict.title == "champion" and now is not None:
        is_new = before is None or before.candidate.recipe() != winner.candidate.recipe()
        word = "becomes" if is_new else "stays"
        return f"{winner.candidate.label} {word} champion, version {now.version}", is_new
    stays = f"{before.candidate.label} stays champion" if before else "there is no champion"
    if done.drop:
        return f"{stays} and is not refitted", False
    return f"{stays}; challenger {winner.candidate.label}: {done.verdict.reason}", False
