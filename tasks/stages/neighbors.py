"""Limit the number of neighbors for small collections."""

from tasks.reporter import Reporter


def limit_neighbors(setting: str, asked: int, available: int, reporter: Reporter) -> int:
    """The number of neighbors of a setting, reduced to those available; a reduction is reported once."""
    if asked > available:
        reporter.say_once(
            f"  {setting} is {asked}, but only {available} neighbors are available: using {available}."
        )
    return min(asked, available)
