"""torchrun inside a Grus job: `python -m grus.elastic.adapters.torchrun [torchrun's options] train.py …`.

Use it as the `run:` of a job with `launch: per-node` or `per-gpu`. Each worker of the job becomes one of
torchrun's nodes. The number of nodes, this node's rank, its number of processes and the rendezvous address
are read from the job's environment. The user's own options come after these, so they take precedence.

A resize is a restart: every worker gets SIGTERM, which torchrun forwards, and is started again with the new
number of workers. The script saves when it gets SIGTERM and loads when GRUS_RESUME is 1.
"""

import os
import sys
from collections.abc import Mapping, Sequence

PATIENCE = 3600
"""Seconds that torchrun waits for scripts that save: the job's grace period ends before."""


def options(environ: Mapping[str, str]) -> list[str]:
    """torchrun's options for this worker; outside a job those for one process on this machine."""
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if "GRUS_JOB" not in environ or not address or not port:
        return ["--standalone", "--nproc-per-node=1"]
    return [
        f"--nnodes={environ.get('WORLD_SIZE', '1')}",
        f"--node-rank={environ.get('RANK', '0')}",
        f"--nproc-per-node={_processes(environ)}",
        # Fixed for this attempt: Grus decides who starts it, with how many workers, and about retries.
        "--rdzv-backend=static",
        f"--rdzv-id={environ['GRUS_JOB']}.{environ.get('GRUS_ATTEMPT', '1')}",
        f"--rdzv-endpoint={address}:{port}",
        "--max-restarts=0",
        f"--shutdown-timeout={PATIENCE}",
    ]


def devices(environ: Mapping[str, str]) -> str:
    """Return CUDA_VISIBLE_DEVICES for torchrun's processes.

    A worker with one GPU sees those of its peers on the machine too, and uses the one of its LOCAL_RANK.
    Under torchrun it is a node of its own, whose first process uses the first GPU that it sees.
    """
    seen = _visible(environ)
    own = int(environ.get("LOCAL_RANK", "0"))
    return seen[own] if _one_each(environ) and own < len(seen) else ",".join(seen)


def _processes(environ: Mapping[str, str]) -> int:
    return 1 if _one_each(environ) else max(1, len(_visible(environ)))


def _one_each(environ: Mapping[str, str]) -> bool:
    """Return whether every worker of the job has one GPU (or less)."""
    return float(environ.get("GRUS_GPUS", "1")) <= int(environ.get("WORLD_SIZE", "1"))


def _visible(environ: Mapping[str, str]) -> list[str]:
    return [device for device in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]


def main(arguments: Sequence[str]) -> int:
    """Run torchrun until it ends; return its exit code, or 128 + signal after a termination signal."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.run import main as torchrun

    ours = options(os.environ)
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices(os.environ)
    try:
        torchrun([*ours, *arguments])
    except SignalException as told:
        return 128 + int(told.sigval)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
