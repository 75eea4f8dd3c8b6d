"""A gang: every rank adds its number at each step, and no step ends before all ranks have spoken.

Rank 0 listens at MASTER_ADDR:MASTER_PORT, the others connect; one missing rank stops them all. That is what
a distributed training does with its gradients, and why a gang starts all together or not at all.
"""

import argparse
import os
import signal
import socket
import sys
import time
from typing import TextIO

PATIENCE = 20.0
"""Seconds until a rank that finds no gang gives up."""


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--step-seconds", type=float, default=0.25)
    chosen = options.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # received by sigtimedwait only

    peers = gather(address, world) if rank == 0 else [join(address)]
    say(f"rank {rank} of {world}: all here")
    for step in range(1, chosen.steps + 1):
        # A real job computes its gradients here.
        if signal.sigtimedwait({signal.SIGTERM}, chosen.step_seconds):
            say(f"rank {rank}: asked to leave")
            return 0
        total = reduce(peers, rank) if rank == 0 else exchange(peers[0], rank)
        say(f"rank {rank}: step {step}/{chosen.steps}, sum over all ranks {total}")
    return 0


def gather(address: tuple[str, int], world: int) -> list[TextIO]:
    """Rank 0: wait until every other rank has connected."""
    with socket.create_server(address, reuse_port=False) as server:
        server.settimeout(PATIENCE)
        return [server.accept()[0].makefile("rw") for _ in range(world - 1)]


def join(address: tuple[str, int]) -> TextIO:
    """Any other rank: connect to rank 0, which may not be listening yet."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE).makefile("rw")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def reduce(peers: list[TextIO], own: int) -> int:
    total = own + sum(hear(peer) for peer in peers)
    for peer in peers:
        tell(peer, total)
    return total


def exchange(master: TextIO, own: int) -> int:
    tell(master, own)
    return hear(master)


def hear(peer: TextIO) -> int:
    line = peer.readline()
    if not line:
        sys.exit("a rank of the gang is gone")
    return int(line)


def tell(peer: TextIO, number: int) -> None:
    peer.write(f"{number}\n")
    peer.flush()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
