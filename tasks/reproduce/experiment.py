"""The definition of an experiment. Nothing heavy is imported here.

A new experiment is one module of this package with an `EXPERIMENTS` tuple, named in `catalog.MODULES`. Its
printed numbers are rows of `storage/reference/published.csv`, and its protocol is a module of
`embedding_core.protocols`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from embedding_core.protocols.trial import Arm

TRIALS = "trials"


@dataclass(frozen=True)
class Draws:
    """The trials of an experiment on a data set: the protocol that draws their rows, and its settings.

    For features that are learned in each trial, the protocol has `training_rows(data, settings, number)`.
    """

    protocol: str
    settings: Mapping[str, Any]

    @property
    def trials(self) -> int:
        """Number of trials."""
        return int(self.settings[TRIALS])


BASELINES = (
    Arm("1NN", "1nn", role="baseline"),
    Arm("scaled SVM", "svm", role="baseline", preprocessing=("zscore",)),
)
"""Plain baselines of every row: 1NN with the preprocessing of the row, and an SVM on z-scored features."""

_AS_PUBLISHED = {"calibrate": False, "scale": "zscore", "one_vs_one": False}
RBF_SVC = Arm("RBF-SVC", "rbf_svc", _AS_PUBLISHED, role="baseline")
"""The figures in RESULTS.md are those of one machine per label, whose scores are not calibrated."""

TUNED_BASELINES = (
    RBF_SVC,
    Arm("random forest", "random_forest", role="baseline"),
)
"""Tuned baselines: an RBF-SVC with twelve pairs of penalty and width, and 500 trees."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Attributes
    ----------
    name, title, paper, where : str
        Name on the command line, what it shows, the paper, and the table or figure.
    datasets : tuple of str
        Names in `storage/reference/sets.toml`.
    arms : tuple of Arm
        The compared methods; those with the role "baseline" become columns.
    protocol : str
        Module with `trial(data, arm, settings, preprocessing, number)`.
    full, quick : mapping
        Settings of the protocol, including `trials`; quick settings replace full ones of the same name.
    preprocessing : tuple of str
        Each is a separate row.
    primary, primary_condition : str
        The preprocessing and condition of the paper, which are counted in the summary of verdicts; an
        empty condition matches any.
    overrides, quick_overrides : mapping
        By data set: settings that replace the others; the latter only in quick runs.
    quick_sets : tuple of str
        Data sets of a quick run without --sets; empty: all.
    own_preprocessing : mapping
        By data set: replaces `preprocessing`.
    own_graph : mapping
        By data set: graph parameters for the arms that have a sigma.
    against_plain : bool
        Verdicts compare each method with the best plain baseline instead of printed numbers; see
        `tasks.reproduce.against_plain`.
    unlisted : str
        Regular expression of conditions that are in the file of cells but not in tables.
    figure : str
        Module with `draw(story) -> dict of file name to PNG bytes`, see `page.Story`; empty if there is none.
    note : str
        One line on how to read the table.
    """

    name: str
    title: str
    paper: str
    where: str
    datasets: tuple[str, ...]
    arms: tuple[Arm, ...]
    protocol: str
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    preprocessing: tuple[str, ...] = ("raw", "zscore")
    primary: str = "raw"
    primary_condition: str = ""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quick_overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quick_sets: tuple[str, ...] = ()
    own_preprocessing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own_graph: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    against_plain: bool = False
    unlisted: str = ""
    figure: str = ""
    note: str = ""

    def settings(self, dataset: str, quick: bool) -> dict[str, Any]:
        """Settings of the protocol for one data set."""
        chosen = {**self.full, **self.overrides.get(dataset, {})}
        return {**chosen, **self.quick, **self.quick_overrides.get(dataset, {})} if quick else chosen

    def draws(self, dataset: str, quick: bool) -> Draws:
        """The trials on one data set."""
        return Draws(self.protocol, self.settings(dataset, quick))

    def only(self, datasets: Collection[str]) -> "Experiment":
        """The experiment restricted to some of its data sets."""
        return replace(self, datasets=tuple(name for name in self.datasets if name in datasets))

    def lists(self, condition: str) -> bool:
        """Whether rows of a condition are in tables."""
        return not (self.unlisted and re.search(self.unlisted, condition))

    def sample(self, dataset: str, quick: bool) -> str:
        """The part of a data set that a run uses, in words; empty for all of it."""
        settings = self.settings(dataset, quick)
        if settings.get("rows"):
            return f"{settings['rows']:,} rows"
        if settings.get("classes"):
            return f"{settings['classes']} classes"
        return f"{settings['most']} images of each person" if settings.get("most") else ""

    def preprocessing_of(self, arm: Arm, dataset: str) -> tuple[str, ...]:
        """Preprocessings of an arm on a data set."""
        return arm.preprocessing or self.own_preprocessing.get(dataset, self.preprocessing)

    def arms_on(self, dataset: str) -> tuple[Arm, ...]:
        """The arms with their parameters for a data set."""
        graph = self.own_graph.get(dataset, {})
        return tuple(
            replace(arm, params={**arm.params, **graph}) if "sigma" in arm.params else arm
            for arm in self.arms
        )

    @property
    def baselines(self) -> tuple[Arm, ...]:
        """The arms that become columns of the table."""
        return tuple(arm for arm in self.arms if arm.role == "baseline")
