"""Control plane settings that an operator may change. Values only; the server reads them from files."""

from dataclasses import dataclass
from pathlib import Path

from grus.model.identifiers import QueueName
from grus.model.prices import NO_PRICES, Prices

DAY = 86_400.0
LAST_BACKUP = "last-backup"
"""Empty file of the state; its time is that of the newest backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Seconds and bytes throughout."""

    state: Path
    """Folder of this server's state; code copies live in its `code` folder."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment of every job unless its own `env` overrides it (PATH, HOME, USER, LANG of the server)."""
    as_submitters: bool = False
    """Jobs run as their submitters' Unix users (the server is root), else as the server's own."""
    boxed: bool = False
    """Each worker runs in a bubblewrap sandbox."""
    shared_account: bool = False
    """Several people may submit though their jobs share the server's Unix user: an operator accepts that."""
    containers: bool = False
    """Workers are containers elsewhere: a workdir is a folder in their image ("" for the image's own) or a
    code bundle, never a folder of this machine; jobs may name images and set more fields of their pods.
    """
    allowed_pod_fields: tuple[str, ...] = ()
    """Fields of `pod` that an administrator allows besides `api.inputs.pod_allow_list`: `PATH`, or
    `QUEUE:PATH`.
    """
    safety_tick: float = 30.0
    """Period after which usage is recomputed from the store and everything is decided again."""
    node_interval: float = 5.0
    """Period of polling the engine for its nodes: a lost GPU must be noticed within 10 s."""
    start_timeout: float = 60.0
    """A gang that is not up by then is undone."""
    failure_grace: float = 5.0
    """Grace period of the other workers of a gang after one has failed; never more than the job's own."""
    max_snapshot_bytes: int = 512 << 20
    event_retention: float = 30 * DAY
    job_retention: float = 90 * DAY
    """Age at which ended jobs are deleted, with their logs and code copies."""
    result_retention: float = 5 * 365 * DAY
    """Age at which job results are deleted too; never before the job itself."""
    retention_interval: float = 3600.0
    artefact_retention: float = 30 * DAY
    """Time for which an artifact of an ended job stays after its last use."""
    artefact_grace: float = 3600.0
    """Time for which unreferenced content stays: a job may be about to report it."""
    cache_bytes: int = 50 << 30
    """Size limit of artifacts unpacked as files for jobs to read, on each node and for each user."""
    prices: Prices = NO_PRICES
    configured_queues: frozenset[QueueName] = frozenset()
    """Queues that config.toml defines: each start sets them again."""

    @property
    def artefacts(self) -> Path:
        """Folder for results of jobs, one artifact store for each user."""
        return self.state / "artefacts"

    @property
    def secrets(self) -> Path:
        """Folder that holds values of secrets; no job reads it."""
        return self.state / "secrets"

    @property
    def code(self) -> Path:
        """Folder for copies of submitted code, one subfolder each."""
        return self.state / "code"
