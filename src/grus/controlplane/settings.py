"""What an operator may set about the control plane. Values only; the server reads them from files."""

from dataclasses import dataclass
from pathlib import Path

from grus.model.prices import NO_PRICES, Prices

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Seconds and bytes throughout."""

    state: Path
    """Folder of this server's state; code copies live in its `code` folder."""
    environment: tuple[tuple[str, str], ...] = ()
    """What every job sees unless its own `env` says otherwise (PATH, HOME, USER, LANG of the server)."""
    as_submitters: bool = False
    """Jobs run as their submitters' Unix users (the server is root), else as the server's own."""
    boxed: bool = False
    """Each worker runs in a box of bubblewrap."""
    shared_account: bool = False
    """Several people may submit though their jobs share the server's Unix user: an operator accepts that."""
    containers: bool = False
    """Workers are containers elsewhere: a workdir is a place in their image ("" for the image's own) or a
    code bundle, never a folder of this machine; jobs may name images and say more of their pods."""
    allowed_pod_fields: tuple[str, ...] = ()
    """Fields of `pod` that an administrator allows besides `api.pod_rules`: `PATH`, or `QUEUE:PATH`."""
    safety_tick: float = 30.0
    """How often usage is recomputed from the store and everything is decided anew."""
    node_interval: float = 5.0
    """How often the engine is asked for its nodes: a lost GPU must be noticed within 10 s."""
    start_timeout: float = 60.0
    """A gang that is not up by then is undone."""
    failure_grace: float = 5.0
    """What the others of a gang get when one of them has failed; never more than the job's own grace."""
    max_snapshot_bytes: int = 512 << 20
    event_retention: float = 30 * DAY
    job_retention: float = 90 * DAY
    """Age at which ended jobs go, with their logs and code copies."""
    result_retention: float = 5 * 365 * DAY
    """Age at which what is kept of jobs for good goes too; never before the job itself."""
    retention_interval: float = 3600.0
    artefact_retention: float = 30 * DAY
    """For how long an artefact of an ended job stays after its last use."""
    artefact_grace: float = 3600.0
    """How long what nobody names yet stays: a job may be about to tell of it."""
    cache_bytes: int = 50 << 30
    """Of artefacts as files for jobs to read, on each node and for each user."""
    prices: Prices = NO_PRICES

    @property
    def artefacts(self) -> Path:
        """Where results of jobs are kept, one vault for each user."""
        return self.state / "artefacts"

    @property
    def secrets(self) -> Path:
        """Folder that holds values of secrets; no job reads it."""
        return self.state / "secrets"

    @property
    def code(self) -> Path:
        """Where copies of submitted code live, one folder each."""
        return self.state / "code"
