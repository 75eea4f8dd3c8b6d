"""A program of Dask as it is anywhere, but that it is told where the scheduler is, and waits for the gang."""

import os
import random
import sys

from distributed import Client, get_worker

POINTS = 200_000


def inside(seed: int) -> tuple[str, int]:
    """Who counted, and how many of its points fell into a quarter of a circle."""
    rng = random.Random(seed)
    return get_worker().name, sum(rng.random() ** 2 + rng.random() ** 2 < 1 for _ in range(POINTS))


def main() -> int:
    workers = int(os.environ["WORLD_SIZE"]) - 1  # all but the launcher
    with Client(f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", timeout=120) as client:
        client.wait_for_workers(workers, timeout=300)
        counted = client.gather(client.map(inside, range(4 * workers), resources={"GPU": 1}))
    pi = 4 * sum(count for _, count in counted) / (POINTS * len(counted))
    print(f"pi is about {pi:.2f}, from {len({name for name, _ in counted})} workers", flush=True)
    return 0 if abs(pi - 3.14159) < 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
