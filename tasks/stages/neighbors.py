"""How many neighbors a small collection can give."""

from tasks.reporter import Reporter


def limit_neighbors(setting: str, asked: int, available: int, reporter: Reporter) -> int:
    """As many neighbors as the setting asks for, or as there are; the latter is said, once a run."""
    if asked > available:
        reporter.say_once(
            f"  {setting} is {asked}, the collection gives {available} at most: {available} are used."
        )
    return min(asked, available)
