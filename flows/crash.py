"""A file for what went wrong inside, so that the terminal stays readable."""

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from storage.urls import redact_text


def find_crash_home(options: argparse.Namespace) -> Path:
    """The home folder that a command was to use."""
    from flows.commands.options import read_config, read_default_config
    from flows.config import find_home, resolve_home

    try:
        return find_home(read_config(options) if hasattr(options, "set") else read_default_config(options))
    except Exception:  # reading the configuration may be what went wrong
        return resolve_home(options.home)


def write_crash(error: BaseException, home: Path) -> Path:
    """Write the traceback under the home folder, or in the system's temporary one; return the file."""
    text = redact_text(
        f"{shlex_command()}\nPython {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    )
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (home / "logs", Path(tempfile.gettempdir())):
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
