"""When experiments will be done: reckoned from paces, told with the date, over everything ahead."""

from datetime import datetime

import pytest

from flows.eta import Forecast, Work, current_forecast, forecasting

NOON = datetime(2026, 3, 5, 12, 0)
METHODS = {"fast": 1.0, "slow": 20.0, "slower": 90.0}
SETS = {"small": 0.5, "large": 40.0, "huge": 300.0}


def work(method, place, trials=10):
    return Work(f"{place}/{method}", method, place, trials)


def seconds(one):
    return METHODS[one.method] * SETS[one.place] * one.amount


def everything():
    return [work(method, place) for place in SETS for method in METHODS]


def test_nothing_is_told_before_anything_was_timed_and_after_everything_is_done():
    forecast = Forecast()
    forecast.expect(work("fast", "small"))
    assert (forecast.seconds_left(), forecast.tell(NOON)) == (None, "")
    forecast.learn(work("fast", "small"), 5.0)
    forecast.finish(["small/fast"])
    assert (forecast.seconds_left(), forecast.tell(NOON)) == (0.0, "")


def test_unequal_sets_and_methods_are_not_pooled():
    """Each method once on the small set, one of them on the others: the rest follows."""
    forecast, timed = Forecast(), [work(method, "small") for method in METHODS]
    timed += [work("fast", "large"), work("fast", "huge")]
    for one in everything():
        forecast.expect(one)
    for one in timed:
        forecast.learn(one, seconds(one))
        forecast.finish([one.label])
    left = [one for one in everything() if one.label in forecast.ahead]
    assert len(left) == 4
    assert forecast.seconds_left() == pytest.approx(sum(map(seconds, left)), rel=0.01)
    assert forecast.untimed == 0


def test_the_forecast_does_not_move_while_things_go_as_foreseen():
    forecast, finishes, clock = Forecast(), [], 0.0
    for one in everything():
        forecast.expect(one)
        forecast.learn(work(one.method, one.place, trials=3), seconds(one) * 0.3)  # an earlier, quick run
    for one in everything():
        clock += seconds(one)
        forecast.finish([one.label])
        finishes.append(clock + forecast.seconds_left())
    assert finishes == pytest.approx([sum(map(seconds, everything()))] * len(finishes))


def test_methods_that_nobody_timed_are_told():
    forecast = Forecast()
    for one in everything():
        forecast.expect(one)
    forecast.learn(work("fast", "small"), 5.0)
    forecast.finish(["small/fast"])
    assert forecast.tell(NOON) == ("8 stages left, done about 12:00 (a guess, methods not timed yet: 2)")
    for method in METHODS:
        forecast.learn(work(method, "small"), 5.0)
    assert "guess" not in forecast.tell(NOON)


@pytest.mark.parametrize(
    ("hours", "told"),
    [(2.5, "1 stage left, done about 14:30"), (30, "1 stage left, done about Fri 06 Mar 2026, 18:00")],
)
def test_the_date_stands_where_it_is_not_today(hours, told):
    forecast = Forecast()
    forecast.expect(work("fast", "small"))
    forecast.learn(work("fast", "small", trials=1), hours * 360)
    assert forecast.tell(NOON) == told


def test_a_forecast_holds_for_what_runs_inside():
    with forecasting(Forecast()) as forecast:
        assert current_forecast() is forecast
    assert current_forecast() is None
