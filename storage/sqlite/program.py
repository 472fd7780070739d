"""A program that creates and upgrades its SQLite database by migrations, such as MLflow and Prefect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from storage.errors import DatabaseDamaged, LabelscapeError


@dataclass(frozen=True)
class Schema:
    """The tables of a database, and the version that the migrations recorded in it."""

    tables: frozenset[str]
    revision: str | None


class Program(ABC):
    """What `storage.sqlite` has to know about the program that a database belongs to.

    Attributes
    ----------
    title : str
        Its name.
    elsewhere : str
        How a user chooses another place for the database, as the end of a sentence.
    """

    title: str
    elsewhere: str

    @abstractmethod
    def version(self) -> str:
        """Return the installed version."""

    @abstractmethod
    def revisions(self) -> tuple[str, ...]:
        """Return the versions of its tables, the latest first."""

    @abstractmethod
    def tables(self) -> frozenset[str]:
        """Return the tables that a complete database has."""

    @abstractmethod
    def migrate(self, file: Path, upgrade: bool) -> None:
        """Create the tables in a file that nobody else uses; with `upgrade`, add what is new."""

    @abstractmethod
    def error(self, message: str) -> LabelscapeError:
        """Return the error for a database that cannot be used."""

    @abstractmethod
    def damage(self, file: Path, reason: str) -> DatabaseDamaged:
        """Return the error for a damaged database."""

    @abstractmethod
    def explain(self, file: Path, error: Exception) -> LabelscapeError:
        """Return an error of SQLite or of the system as one that names the file and what to do."""

    @abstractmethod
    def loss(self, file: Path) -> str:
        """Return what a new database lacks that a damaged one contained, and what to do."""

    def check_owner(self, file: Path, schema: Schema) -> None:  # noqa: B027 (most programs need no check)
        """Raise if the tables are those of another program."""

    def is_named(self, file: Path) -> bool:
        """Return whether only this program uses files of this name; False if the user chose the name."""
        return True

    def close_connections(self, file: Path) -> None:  # noqa: B027 (by default there are none)
        """Close the connections of this process to a database that is about to be replaced."""
