"""A gang that adds up a number over all its workers: rank 0 listens, the others connect."""

import os
import socket
import time

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
MASTER = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
PATIENCE = 60.0


def gather(mine: int) -> int:
    """Rank 0: the sum of all numbers, told to everybody."""
    with socket.create_server(MASTER) as server:
        server.settimeout(PATIENCE)
        others = [server.accept()[0] for _ in range(WORLD - 1)]
    total = mine + sum(int(other.recv(64)) for other in others)
    for other in others:
        other.sendall(str(total).encode())
        other.close()
    return total


def give(mine: int) -> int:
    """Any other rank: hand in a number, hear the sum. Rank 0 may not listen yet: try until it does."""
    for _ in range(1000):
        try:
            with socket.create_connection(MASTER, timeout=PATIENCE) as master:
                master.sendall(str(mine).encode())
                return int(master.recv(64))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit("rank 0 never listened")


if __name__ == "__main__":
    mine = (RANK + 1) ** 2
    total = gather(mine) if RANK == 0 else give(mine)
    print(f"worker {RANK} of {WORLD}: my part is {mine}, together we have {total}", flush=True)
    assert total == sum((rank + 1) ** 2 for rank in range(WORLD))
