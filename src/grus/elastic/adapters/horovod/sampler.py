"""Elastic sampler: divides the rest of the epoch again when workers join or leave."""

from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from grus.elastic.adapters.horovod.world import rank, size
from grus.elastic.data.sample_schedule import order


class ElasticSampler(Sampler[int]):
    """Put it into the TorchState, call `record_batch` after each batch, `set_epoch` at the end of an epoch.

    As in Horovod each worker gets the same number of samples; up to one a worker is given out twice at the
    end of an epoch so that it comes out even.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        """Samples of this epoch that all workers together are done with."""
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """The next epoch, in another order, with nothing used yet."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:  # noqa: ARG002 - Horovod's signature
        """Every worker has done a batch of that size."""
        self.processed_num = min(len(self.dataset), self.processed_num + batch_size * self.num_replicas)

    def reset(self) -> None:
        """Divide what is left among the workers that there are now."""
        self.num_replicas, self.rank = size(), rank()
        count = len(self.dataset)
        whole = order(self.seed, self.epoch, count).tolist() if self.shuffle else list(range(count))
        self.remaining_indices = whole[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        missing = self.num_samples * self.num_replicas - len(left)
        even = [*left, *(left * self.num_replicas)[:missing]]
        return iter(even[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
