"""Slurm's own programs as functions: sbatch, scontrol, squeue, scancel. Words only, never a shell line."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.compare.environments import DriverFailed

PROGRAMS = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
PATIENCE = 60.0
"""Seconds that one of them may take; the controller of a large cluster is slow at times."""
KILLED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}
)
"""States in which Slurm ended the job …"""
OVER = KILLED | {"COMPLETED", "FAILED"}
"""… and all that a job does not leave."""
_UNKNOWN = "Invalid job id"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Slurm's current report of a job."""

    state: str
    reason: str = ""
    node: str = ""
    exit_code: str = ""
    """`3:0`: exit code and signal."""

    @property
    def over(self) -> bool:
        return self.state in OVER


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def submit(options: Sequence[str], script: Path, arguments: Sequence[str]) -> str:
    """The new job's id."""
    done = _run("sbatch", "--parsable", *options, str(script), *arguments)
    # With several clusters the answer is "17;cluster".
    number = done.stdout.strip().partition(";")[0]
    if done.returncode or not number.isdecimal():
        raise DriverFailed(f"sbatch did not take the job: {_said(done)}; see sinfo for what there is")
    return number


def look(job: str) -> SlurmJob | None:
    """None where Slurm does not know it any more: it forgets ended jobs after some minutes."""
    done = _run("scontrol", "show", "job", "-o", job)
    if done.returncode:
        if _UNKNOWN in done.stderr:
            return None
        raise DriverFailed(f"Slurm does not answer: {_said(done)}")
    text = done.stdout
    return SlurmJob(
        _field(text, "JobState"), _field(text, "Reason"), _field(text, "NodeList"), _field(text, "ExitCode")
    )


def cancel(jobs: Sequence[str]) -> None:
    if jobs:
        _run("scancel", *jobs)


def mine() -> dict[str, str]:
    """This user's jobs in the queue: id and name."""
    done = _run("squeue", "-h", "-u", _user(), "-o", "%A %j")
    pairs = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def partitions(name: str) -> list[str]:
    """`NAME NODES GRES` of a partition, or of the usual one; empty if there is none of that name."""
    chosen = (f"--partition={name}",) if name else ()
    done = _run("sinfo", "-h", "-o", "%P %D %G", *chosen)
    if done.returncode:
        raise DriverFailed(f"Slurm does not answer: {_said(done)}")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an id without a name: squeue takes numbers as well
        return str(os.getuid())


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except FileNotFoundError:
        raise DriverFailed(f"there is no {words[0]} on PATH: log in to a machine of the cluster") from None
    except subprocess.TimeoutExpired:
        raise DriverFailed(f"{words[0]} did not answer within {PATIENCE:.0f} s: try again later") from None


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"it ended with code {done.returncode} and without a word"


def _field(text: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S*)", text)
    return "" if found is None or found[1] in ("(null)", "None") else found[1]
