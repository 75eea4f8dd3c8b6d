"""A program of Ray as it is anywhere: fits a line to points by gradients from one actor on each GPU.

Only `ray.init()` is said, without an address: RAY_ADDRESS is set where Grus runs it (see cluster.py).
"""

import random
import sys

import ray

TRUE = (2.0, -1.0)
"""Slope and height of the line to be found."""
STEPS, POINTS, RATE = 100, 500, 0.5


@ray.remote(num_gpus=1, num_cpus=0)
class Shard:
    """A share of the points, on a GPU of its own."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.points = [(x, TRUE[0] * x + TRUE[1]) for x in (rng.uniform(-1, 1) for _ in range(POINTS))]

    def where(self) -> tuple[str, list[int]]:
        context = ray.get_runtime_context()
        return context.get_node_id(), ray.get_gpu_ids()

    def gradient(self, slope: float, height: float) -> tuple[float, float, float]:
        """Of the mean squared error, and the error itself."""
        errors = [(slope * x + height - y, x) for x, y in self.points]
        count = len(errors)
        return (
            sum(error * x for error, x in errors) / count,
            sum(error for error, _ in errors) / count,
            sum(error * error for error, _ in errors) / count,
        )


def main() -> int:
    ray.init(logging_level="ERROR")
    gpus = int(ray.cluster_resources().get("GPU", 0))
    shards = [Shard.remote(seed) for seed in range(gpus)]
    places = ray.get([shard.where.remote() for shard in shards])
    print(f"{gpus} GPUs on {len({node for node, _ in places})} nodes", flush=True)
    slope = height = loss = 0.0
    for _ in range(STEPS):
        parts = ray.get([shard.gradient.remote(slope, height) for shard in shards])
        down, level, loss = (sum(part) / len(parts) for part in zip(*parts, strict=True))
        slope, height = slope - RATE * down, height - RATE * level
    print(f"y = {slope:.3f} x + {height:.3f}, loss {loss:.2e}", flush=True)
    return 0 if loss < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
