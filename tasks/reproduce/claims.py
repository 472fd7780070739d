"""Check claims that a paper makes in words: one method beats another, two are similar, or a result exists."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from storage.artifacts.schemas import TrialCell
from storage.reference.published import PublishedCell, published_claims
from tasks.reproduce.comparison import (
    LOWER,
    POINTS,
    REPRODUCED,
    ROUNDING,
    WORSE,
    Measured,
    Row,
    judge_cell,
    of_sample,
    spread_of,
)
from tasks.reproduce.experiment import Experiment

LEADS, ALIKE, EXISTS = " > ", " ~ ", ""


@dataclass(frozen=True)
class Side:
    """One side of a claim: a method, and the beginning of its conditions."""

    method: str
    condition: str

    def rest_of(self, condition: str) -> str | None:
        """Remainder of a condition that this side covers; None for other conditions."""
        if self.condition in ("", condition):
            return "" if self.condition else condition
        begin = f"{self.condition}, "
        return condition[len(begin) :] if condition.startswith(begin) else None


def sides_of(claim: PublishedCell) -> tuple[Side, Side, str]:
    """The two sides of a claim and the sign between them; the same side twice if there is no sign.

    >>> cell = PublishedCell("e", "Fig. 3", "usps", "DP > LDA", "hit_rate", "100-D > 9-D", None)
    >>> sides_of(cell)[:2]
    (Side(method='DP', condition='100-D'), Side(method='LDA', condition='9-D'))
    """
    sign = next((one for one in (LEADS, ALIKE) if one in claim.method + claim.condition), EXISTS)
    if sign == EXISTS:
        alone = Side(claim.method, claim.condition)
        return alone, alone, sign
    methods, conditions = claim.method.split(sign), claim.condition.split(sign)
    return Side(methods[0], conditions[0]), Side(methods[-1], conditions[-1]), sign


def claim_rows(experiment: Experiment, measured: Measured, quick: bool = False) -> list[Row]:
    """One row per claim and preprocessing that both sides were measured with."""
    rows = []
    for claim in published_claims(experiment.name):
        left, right, sign = sides_of(claim)
        cells = [measured.get((claim.dataset, side.method), ()) for side in (left, right)]
        shared = {one.preprocessing for one in cells[0]} & {one.preprocessing for one in cells[1]}
        for preprocessing in (
            one for one in dict.fromkeys(c.preprocessing for c in cells[0]) if one in shared
        ):
            leads = (
                _values(claim.metric, preprocessing, left, cells[0])
                if sign == EXISTS
                else _leads(claim.metric, preprocessing, (left, cells[0]), (right, cells[1]))
            )
            if leads:
                row = _judged(experiment, claim, preprocessing, leads, sign)
                rows.append(of_sample(row, experiment.sample(claim.dataset, quick)))
    return rows


_Leads = dict[str, dict[int, float]]
"""Leads by remainder of the condition and by trial."""


def _values(metric: str, preprocessing: str, side: Side, cells: Sequence[TrialCell]) -> _Leads:
    found: _Leads = {}
    for cell in cells:
        rest = side.rest_of(cell.condition)
        if rest is not None and (cell.metric, cell.preprocessing) == (metric, preprocessing):
            found.setdefault(rest, {})[cell.trial] = cell.value
    return found


def _leads(
    metric: str,
    preprocessing: str,
    left: tuple[Side, Sequence[TrialCell]],
    right: tuple[Side, Sequence[TrialCell]],
) -> _Leads:
    """Lead of the left side by trial; both sides have the same random draws."""
    ours, theirs = (_values(metric, preprocessing, *side) for side in (left, right))
    sign = -1.0 if metric in LOWER else 1.0
    return {
        rest: {
            trial: sign * (ours[rest][trial] - theirs[rest][trial])
            for trial in ours[rest].keys() & theirs[rest].keys()
        }
        for rest in ours
        if rest in theirs
    }


def _judged(
    experiment: Experiment, claim: PublishedCell, preprocessing: str, leads: _Leads, sign: str
) -> Row:
    means = np.array([np.mean(list(one.values())) for one in leads.values()])
    trials = sorted(set.union(*(set(one) for one in leads.values())))
    by_trial = [float(np.mean([one[trial] for one in leads.values() if trial in one])) for trial in trials]
    mean = float(means.mean())
    holds = np.abs(means) <= POINTS + ROUNDING if sign == ALIKE else means > ROUNDING
    if claim.value is None:
        verdict = REPRODUCED if holds.all() else WORSE
    else:
        verdict = judge_cell(claim.value, mean, "lead")
    return Row(
        dataset=claim.dataset,
        method=claim.method,
        condition=claim.condition,
        preprocessing=preprocessing,
        metric=claim.metric if sign == EXISTS else f"{claim.metric}_lead",
        paper=claim.value,
        mean=mean,
        spread=spread_of(by_trial),
        trials=len(trials),
        verdict=verdict,
        reason=f'{_describe(holds, sign)}; the paper: "{claim.remark}"',
        primary=preprocessing == experiment.primary,
        claim=True,
    )


def _describe(holds: np.ndarray, sign: str) -> str:
    what = {LEADS: "ahead", ALIKE: "within 2 points", EXISTS: "found"}[sign]
    if len(holds) == 1:
        return what if holds[0] else f"not {what}"
    return f"{what} under {int(holds.sum())} of {len(holds)} conditions"
