"""A whole Slurm on this machine: two pretended nodes with pretended GPUs, on loopback, in a temporary folder.

Everything runs in the foreground as a child of this process and is ended by its pid; the machine's own
configuration is neither read nor written. It needs root, as Slurm's daemons do.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine import free_port, wait_for

PACKAGES = ["slurm-wlm", "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"]
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo"]
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"

TUNED = """
SchedulerParameters=batch_sched_delay=1,sched_interval=1,bf_interval=1
EpilogMsgTime=0
MinJobAge=10
"""
"""The shortest ticks that this version honours."""

CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={controller_port}
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={root}/munge/socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={root}/completed
StateSaveLocation={root}/state/controller
SlurmdSpoolDir={root}/state/%n
SlurmctldPidFile={root}/controller.pid
SlurmdPidFile={root}/%n.pid
SlurmctldDebug=info
SlurmdDebug=info
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
KillWait=5
MaxJobCount=50000
NodeName=DEFAULT CPUs={cpus} RealMemory=8000 Gres=gpu:{gpus} State=UNKNOWN
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={n0_port}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1_port}
PartitionName=DEFAULT Nodes=n[0-1] MaxTime=INFINITE DefaultTime=10 State=UP
PartitionName=low Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Default=NO PriorityTier=10 PreemptMode=OFF
"""


def installed() -> bool:
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
    return all(shutil.which(program, path=path) for program in PROGRAMS)


def provide() -> str:
    """See to it that Slurm is there: "" if it is, else a sentence that says what is missing."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root; run this as root to compare"
    if installed():
        return ""
    if not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return "Slurm is not installed and this is not Debian; install it and munge to compare"
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES, "slurmdbd-"]
    print(f"installing Slurm: {' '.join(install)}", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    environment["PATH"] = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
    for command in (["apt-get", "update", "-qq"], install):
        if subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode != 0:
            return f"Slurm could not be installed ({' '.join(command)} failed)"
    return "" if installed() else "Slurm was installed, but not all of its programs are on PATH"


class SlurmCluster:
    """One life of the cluster: `start` to `stop`, from an empty state."""

    def __init__(self, *, tuned: bool, gpus_per_node: int = 4) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="slurm-bench-"))
        self.tuned = tuned
        self.gpus = gpus_per_node
        self.completed = self.root / "completed"
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(self.root / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}",
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "SlurmCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        self._write_files()
        self._start_munge()
        self.start_controller()
        for node in ("n0", "n1"):
            self._daemon(node, "slurmd", "-D", "-N", node, "-f", self.environment["SLURM_CONF"])
        wait_for(lambda: self.idle_nodes() == 2, 60, "Slurm's two nodes", every=0.1)

    def start_controller(self) -> None:
        self._daemon("controller", "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
        wait_for(self._controller_is_up, 60, "slurmctld", every=0.05)

    def _controller_is_up(self) -> bool:
        if self._daemons["controller"].poll() is not None:
            raise RuntimeError(
                f"slurmctld ended at once: {(self.root / 'controller.log').read_text()[-2000:]}"
            )
        return "is UP" in self.ask("scontrol", "ping")

    def kill_controller(self) -> None:
        daemon = self._daemons.pop("controller")
        daemon.kill()
        daemon.wait()

    def stop(self) -> None:
        if "controller" in self._daemons:
            self.cancel_all()
        for name in ("controller", "n0", "n1", "munge"):
            daemon = self._daemons.pop(name, None)
            if daemon is not None:
                _end(daemon)
        for pid in self._left_over():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)

    def _write_files(self) -> None:
        self.root.chmod(0o755)
        for folder in ("munge", "dev", "out", "state/controller", "state/n0", "state/n1"):
            (self.root / folder).mkdir(parents=True)
        for number in range(self.gpus):
            # A pretended GPU is a second /dev/null.
            os.mknod(self.root / "dev" / f"gpu{number}", 0o020666, os.makedev(1, 3))
        values = {
            "host": socket.gethostname(),
            "root": self.root,
            "gpus": self.gpus,
            "cpus": max(8, self.gpus),
            "controller_port": free_port(),
            "n0_port": free_port(),
            "n1_port": free_port(),
        }
        text = CONFIGURATION.format(**values) + (TUNED if self.tuned else "")
        (self.root / "slurm.conf").write_text(text)
        devices = f"{self.root}/dev/gpu[0-{self.gpus - 1}]"
        (self.root / "gres.conf").write_text(f"NodeName=n[0-1] Name=gpu File={devices}\n")

    def _start_munge(self) -> None:
        folder = self.root / "munge"
        folder.chmod(0o755)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        files = {
            "key-file": "key",
            "socket": "socket",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        options = [f"--{option}={folder / file}" for option, file in files.items()]
        self._daemon("munge", "munged", "--foreground", "--force", *options)
        wait_for(lambda: (folder / "socket").exists(), 20, "munged")

    def _daemon(self, name: str, *command: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _left_over(self) -> Iterator[int]:
        """Processes that this cluster's daemons left: their environment names its configuration."""
        mark = f"SLURM_CONF={self.root}/slurm.conf".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark in (entry / "environ").read_bytes():
                        yield int(entry.name)
                except OSError:
                    continue

    # ----------------------------------------------------------------------------------------- verbs

    def ask(self, *command: str) -> str:
        """What a command prints; "" if it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    def sbatch(self, script: Path, *options: str, arguments: tuple[str, ...] = ()) -> str | None:
        """Submit with one GPU: the job's id, or None if it was not accepted."""
        fixed = ("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", "-n1")
        return self.ask(*fixed, *options, str(script), *arguments).strip() or None

    def script(self, name: str, text: str) -> Path:
        file = self.root / name
        file.write_text(text)
        file.chmod(0o755)
        return file

    def idle_nodes(self) -> int:
        return sum(
            int(word) for word in self.ask("sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D").split()
        )

    def queued(self) -> list[str]:
        return self.ask("squeue", "-h", "-o", "%i").split()

    def completed_jobs(self) -> int:
        try:
            return self.completed.read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def cancel_all(self) -> None:
        self.ask("scancel", "-u", "root")
        wait_for(lambda: not self.queued(), 60, "Slurm's queue to be empty", every=0.1)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
