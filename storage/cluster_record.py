"""The local cluster of a home folder (`labelscape up --workers`): its record and its certificate.

A scheduler runs the code that a client sends, so it accepts only clients that have the certificate. That is a
file that only the owner of the home can read.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from storage.artifacts.disk import write_atomically
from storage.servers import HOST, Service

FOLDER = "cluster"
_RECORD = "cluster.json"
_CERTIFICATE = "certificate.pem"


@dataclass(frozen=True)
class ClusterRecord:
    """The processes of a local cluster and how many workers were asked for."""

    scheduler: Service
    workers: Service
    count: int
    dashboard_port: int

    @property
    def address(self) -> str:
        """The scheduler, as value of the setting `executor`."""
        return f"tls://{HOST}:{self.scheduler.port}"

    @property
    def dashboard(self) -> str:
        """The page that shows what the workers do."""
        return f"http://{HOST}:{self.dashboard_port}/status"

    @property
    def services(self) -> list[Service]:
        """The processes in the order in which they start."""
        return [self.scheduler, self.workers]

    @property
    def is_running(self) -> bool:
        """Whether all its processes are alive."""
        return all(one.process is not None for one in self.services)


def certificate_path(home: Path) -> Path:
    """The file with key and certificate of the local cluster."""
    return home / FOLDER / _CERTIFICATE


def record_path(home: Path) -> Path:
    """The file with the record of the local cluster."""
    return home / FOLDER / _RECORD


def write_cluster(home: Path, record: ClusterRecord) -> None:
    """Write the record."""
    write_atomically(record_path(home), json.dumps(asdict(record), indent=2).encode())


def read_cluster(home: Path) -> ClusterRecord | None:
    """Return the cluster that was started last; None if there is no record, or not one of ours."""
    try:
        content = json.loads(record_path(home).read_text(encoding="utf-8"))
        services = {name: Service(**content[name]) for name in ("scheduler", "workers")}
        return ClusterRecord(**services, count=content["count"], dashboard_port=content["dashboard_port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_certificates(home: Path | None, address: str) -> Path | None:
    """Return the certificate for the address of this home's own cluster; None for any other address."""
    found = read_cluster(home.resolve()) if home else None
    return certificate_path(home.resolve()) if home and found and found.address == address else None
