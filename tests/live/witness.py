"""What the kernel says about the processes of one server: a witness that does not ask Grus."""

import os
from dataclasses import dataclass
from pathlib import Path

from grus.engines.local import processes

CONTROL = "GRUS_CONTROL"
"""The variable that only workers have; it leads to the worker's folder."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A living worker: its first process."""

    pid: int
    worker: str
    job: str
    visible: tuple[str, ...]
    local_rank: int

    def devices(self, launch: str) -> tuple[str, ...]:
        """Those that are its own: one of a gang sees its peers' too, and takes that of its LOCAL_RANK."""
        return (self.visible[self.local_rank],) if launch == "per-gpu" else self.visible


def workers(home: Path) -> list[Seen]:
    """All living workers that a server with this home has started, each by its uppermost process."""
    own = f"{home}/"
    found = {}
    for pid, parent in _living().items():
        values = _environment(pid)
        if values.get(CONTROL, "").startswith(own):
            visible = tuple(filter(None, values["CUDA_VISIBLE_DEVICES"].split(",")))
            worker = Path(values[CONTROL]).parent.name
            found[pid] = (
                parent,
                Seen(pid, worker, values["GRUS_JOB"], visible, int(values.get("LOCAL_RANK", 0))),
            )
    return [seen for parent, seen in found.values() if parent not in found]


def related(home: Path) -> list[str]:
    """Every living process that names this home in its command or its environment, but not this one."""
    word = str(home)
    found = []
    for pid in _living():
        command = _strings(pid, "cmdline")
        if pid != os.getpid() and any(word in text for text in (*command, *_strings(pid, "environ"))):
            found.append(f"{pid} {' '.join(command)[:200]}")
    return found


def _living() -> dict[int, int]:
    """Each living process and its parent."""
    return {one.pid: one.parent for one in processes.scan().values() if one.alive}


def _environment(pid: int) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in _strings(pid, "environ"))


def _strings(pid: int, name: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.split("\0")
