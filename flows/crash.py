"""A file for what went wrong inside, so that the terminal stays readable."""

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path


def write_crash(error: BaseException) -> Path:
    """Write the traceback under the home folder, or in the system's temporary one; return the file."""
    text = f"{shlex_command()}\nPython {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (
        Path(os.environ.get("LABELSCAPE_HOME", ".labelscape")) / "logs",
        Path(tempfile.gettempdir()),
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / name
            file.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return file
    return Path(os.devnull)


def shlex_command() -> str:
    """The command that was given."""
    import shlex

    return shlex.join(sys.argv)
