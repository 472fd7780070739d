"""Where the command `labelscape` begins: an answer that still stands is given at once, else all is loaded."""

import sys


def start() -> int:
    """`flows.cli.entry`, unless `status` has been asked before and nothing has changed since."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["status"]:
        from flows.recall import recall

        answer = recall(arguments)
        if answer is not None:
            return _say(answer)
    from flows.cli import entry

    return entry()


def _say(answer: str) -> int:
    """To standard output, as `flows.terminal.show` and `flows.cli` do it, which take longer to load."""
    import os

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        print(answer, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(start())
