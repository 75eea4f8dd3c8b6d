"""Texts of the systemd units for a server and its scheduled backups. Pure: no file is read or written here.

Jobs run in the cgroup of the server's unit and must outlive it: systemd signals the server alone
(`KillMode=process`), and a job that runs out of memory does not end it (`OOMPolicy=continue`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SERVER, BACKUP, TIMER = "grus.service", "grus-backup.service", "grus-backup.timer"
BAD_INPUT = 2
"""Exit code of a server whose settings are wrong; a restart would not help."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Scheduled backups."""

    folder: Path
    every: str = "daily"
    """As systemd's OnCalendar."""
    keep: int = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Facts that the units are made of."""

    python: str
    """Interpreter that has Grus."""
    user: str
    """Account of the server; "" in a unit of a user's own systemd."""
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    """Options of `grus up`."""
    backups: Path | None = None
    """Folder of the scheduled backups; None for none."""
    every: str = "daily"
    """Schedule of the backups, as systemd's OnCalendar."""
    keep: int = 14


def units(service: Service) -> dict[str, str]:
    """The text of each unit, by file name."""
    found = {SERVER: _server(service)}
    if service.backups is not None:
        found |= {BACKUP: _backup(service, service.backups), TIMER: _timer(service)}
    return found


def word(text: str) -> str:
    """A word of a command line or an assignment, quoted for systemd."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"' if escaped != text or not text or set(text) & set(" '\t;") else text


def command(service: Service, *words: str) -> str:
    """A command line of Grus; systemd takes `$` for a variable."""
    line = (service.python, "-m", "grus.cli.main", *words)
    return " ".join(word(one).replace("$", "$$") for one in line)


def _server(service: Service) -> str:
    target = "multi-user.target" if service.user else "default.target"
    return f"""\
[Unit]
Description=Grus: GPU pool of this machine
Wants=network-online.target
After=network-online.target nvidia-persistenced.service
StartLimitIntervalSec=0

[Service]
Type=exec
{_common(service)}ExecStart={command(service, "up", "--foreground", *service.options)}
# Jobs outlive the server: only the server itself is signaled, and one job's OOM kill does not end it.
KillMode=process
OOMPolicy=continue
Delegate=yes
TimeoutStopSec=60
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={BAD_INPUT}
# Jobs inherit these limits.
LimitNOFILE=65536
LimitMEMLOCK=infinity
TasksMax=infinity

[Install]
WantedBy={target}
"""


def _backup(service: Service, folder: Path) -> str:
    words = ("backup", str(folder), "--keep", str(service.keep), "--logs")
    return f"""\
[Unit]
Description=Grus: backup of the state, with logs

[Service]
Type=oneshot
{_common(service)}ExecStart={command(service, *words)}
Nice=10
IOSchedulingClass=idle
"""


def _timer(service: Service) -> str:
    return f"""\
[Unit]
Description=Grus: scheduled backups

[Timer]
OnCalendar={service.every}
RandomizedDelaySec=10min
Persistent=true

[Install]
WantedBy=timers.target
"""


def _common(service: Service) -> str:
    lines = [f"User={service.user}"] if service.user else []
    lines += [f"Environment={word(f'{name}={value}')}" for name, value in sorted(service.environment.items())]
    return "".join(f"{line}\n" for line in lines)
