"""From command-line options to a configuration."""

import argparse
from pathlib import Path

from flows.config import DEFAULT_FILE, RunConfig, load_config, load_default_config, place_from


def read_config(options: argparse.Namespace) -> RunConfig:
    """Configuration of a command: a TOML file or a source, then `--set`, then named options."""
    file, source = _file_or_source(options.source)
    return load_config(
        file,
        options.set,
        home=options.home,
        source={"path": source, "paranoid": True if getattr(options, "paranoid", False) else None},
        embedding={"methods": getattr(options, "methods", None)},
        auto={name: getattr(options, name, None) for name in ("budget", "candidates")},
    )


def read_default_config(options: argparse.Namespace) -> RunConfig:
    """Configuration of a command that takes none: labelscape.toml of this folder, if it is there."""
    return load_default_config(options.home)


def _file_or_source(given: str | None) -> tuple[Path | None, str | None]:
    if given is None:
        return (DEFAULT_FILE, None) if DEFAULT_FILE.is_file() else (None, None)
    if Path(given).suffix.lower() == ".toml":
        return Path(given), None
    return None, place_from(Path(), given)
