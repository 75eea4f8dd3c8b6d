"""The same micro-batch is the same tensor on whatever worker, and a resize drops what was fetched ahead."""

import ctypes
import os
import random
import signal
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from grus.elastic.data.loader import DataError, Loader, Stream, _LoadRequest, _Seeded, moved
from grus.elastic.data.sample_schedule import Micro, Progress, after, finished, micros, order, share

CPU = torch.device("cpu")
SAMPLES, BATCH, SIZE = 22, 8, 3


class Noisy(Dataset[Any]):
    """Each sample is its number and three numbers of chance, one from each generator."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, sample: int) -> tuple[int, float, float, float]:
        return sample, random.random(), float(np.random.rand()), float(torch.rand(()))


class Where(Dataset[Any]):
    """Each sample says which process read it, and which signal that process gets when its parent dies."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, sample: int) -> tuple[int, int, int]:
        number = ctypes.c_int()
        ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
        return sample, os.getpid(), number.value


class Many(Noisy):
    """Can read several samples at once."""

    def __getitems__(self, samples: list[int]) -> list[Any]:
        return [(sample, "at once") for sample in samples]


class Deadly(Noisy):
    """Kills the process that reads it, or fails there."""

    def __init__(self, kill: bool) -> None:
        self.kill = kill

    def __getitem__(self, sample: int) -> Any:
        if self.kill and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyError(f"sample {sample} is broken")


class Endless(IterableDataset[int]):
    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.number))


def steps(epochs: int = 1, samples: int = SAMPLES) -> Iterator[tuple[Micro, ...]]:
    at = Progress()
    while not finished(at, epochs):
        yield micros(at, samples, BATCH, SIZE)
        at = after(at, samples, BATCH)


def plan(rank: int = 0, world: int = 1, epochs: int = 1, samples: int = SAMPLES) -> Iterator[Micro]:
    return (micro for step in steps(epochs, samples) for micro in share(step, rank, world))


def contents(batches: Iterator[tuple[Micro, Any]]) -> dict[Micro, list[list[float]]]:
    return {micro: [part.tolist() for part in data] for micro, data in batches}


def test_chance_in_the_data_depends_on_the_micro_batch_alone_not_on_workers_or_processes() -> None:
    alone = contents(Loader(Noisy(), seed=5, device="cpu").batches(plan(epochs=2)))
    apart: dict[Micro, list[list[float]]] = {}
    for rank, processes in enumerate((0, 2, 1)):
        loader = Loader(Noisy(), seed=5, num_workers=processes, device="cpu")
        apart |= contents(loader.batches(plan(rank, 3, epochs=2)))
    assert apart == alone
    for epoch in range(2):
        read = [sample for micro, data in alone.items() if micro.epoch == epoch for sample in data[0]]
        assert read == order(5, epoch, SAMPLES).tolist()
    noise = [number for data in alone.values() for part in data[1:] for number in part]
    assert len(set(noise)) == len(noise) == 2 * 3 * SAMPLES


def test_another_seed_is_another_order_and_another_chance() -> None:
    one = contents(Loader(Noisy(), seed=5, device="cpu").batches(plan()))
    two = contents(Loader(Noisy(), seed=6, device="cpu").batches(plan()))
    assert [data[0] for data in one.values()] != [data[0] for data in two.values()]
    assert not {number for data in one.values() for number in data[3]} & {
        number for data in two.values() for number in data[3]
    }


def test_asking_anew_drops_what_was_fetched_ahead_and_keeps_the_processes() -> None:
    loader = Loader(Where(), seed=1, num_workers=2, device="cpu")
    first = loader.batches(plan(0, 2, samples=1000))
    before = {int(pid) for _, (_, pids, _) in islice(first, 4) for pid in pids}
    second = contents(loader.batches(plan(1, 3, samples=1000)))
    positions = order(1, 0, 1000)
    assert list(second) == list(plan(1, 3, samples=1000))
    for micro, data in second.items():
        assert data[0] == positions[micro.start : micro.stop].tolist()
    assert {int(pid) for _, pids, _ in second.values() for pid in pids} == before
    assert len(before) == 2
    with pytest.raises(RuntimeError, match="dropped"):
        next(first)


def test_what_was_asked_for_before_the_resize_is_not_read_any_more() -> None:
    """Else a resize would wait until all that was to be fetched ahead has been read."""
    calls = torch.tensor([2])
    reader = _Seeded(Deadly(kill=False), calls)
    assert reader.__getitems__(_LoadRequest(1, 0, [3])) is None
    with pytest.raises(KeyError):
        reader.__getitems__(_LoadRequest(2, 0, [3]))


def test_loader_processes_die_with_the_training_process() -> None:
    loader = Loader(Where(), seed=1, num_workers=1, device="cpu")
    _, (_, pids, signals) = next(loader.batches(plan(samples=1000)))
    assert os.getpid() not in pids.tolist()
    assert set(signals.tolist()) == {signal.SIGKILL}


def test_asking_for_batches_leaves_the_generators_of_the_training_process_alone() -> None:
    loader = Loader(Noisy(), seed=5, num_workers=1, device="cpu")
    before = torch.get_rng_state(), random.getstate()
    assert len(contents(loader.batches(plan()))) == len(list(plan()))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_a_dataset_that_reads_several_at_once_is_asked_so_and_collate_is_the_users() -> None:
    loader = Loader(Many(), seed=5, collate=tuple, device="cpu")
    _, data = next(loader.batches(plan()))
    assert data == tuple((sample, "at once") for sample in order(5, 0, SAMPLES)[:SIZE].tolist())


def test_a_loader_process_that_dies_is_an_error_that_says_so() -> None:
    batches = Loader(Deadly(kill=True), seed=5, num_workers=1, device="cpu").batches(plan())
    with pytest.raises(DataError, match=r"process that loads data died: .*num_workers"):
        next(batches)


def test_the_datasets_own_error_arrives_as_it_is() -> None:
    """Also from a loader process; not tried here, for torch then takes five seconds to end that process."""
    batches = Loader(Deadly(kill=False), seed=5, device="cpu").batches(plan())
    with pytest.raises(KeyError, match=r"sample \d+ is broken"):
        next(batches)


class Lengthless(Dataset[Any]):
    def __getitem__(self, sample: int) -> int:
        return sample


@pytest.mark.parametrize("dataset", [Endless(5), Lengthless()], ids=["stream", "without length"])
def test_a_dataset_without_length_is_refused_with_the_way_out(dataset: Dataset[Any]) -> None:
    with pytest.raises(DataError, match=r"__len__.*exact=False"):
        Loader(dataset, seed=1, device="cpu")


def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(DataError, match="empty"):
        Loader(torch.utils.data.TensorDataset(torch.zeros(0)), seed=1, device="cpu")


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Movable:
    device = "cpu"

    def to(self, device: torch.device) -> "Movable":
        other = Movable()
        other.device = device.type
        return other


def test_tensors_are_moved_wherever_they_are_and_the_shape_of_the_batch_stays() -> None:
    one = torch.ones(2)
    batch: dict[str, Any] = {
        "a": [one, (one, "text", 3)],
        "b": Pair(one, one),
        "c": OrderedDict(x=one),
        "d": Movable(),
    }
    result = moved(batch, torch.device("meta"))
    found = [result["a"][0], result["a"][1][0], *result["b"], result["c"]["x"]]
    assert all(tensor.device.type == "meta" for tensor in found)
    assert result["a"][1][1:] == ("text", 3)
    assert (type(result["b"]), type(result["c"]), result["d"].device) == (Pair, OrderedDict, "meta")
    assert batch["a"][0] is one
    Plain = namedtuple("Plain", "z")
    assert moved(Plain(one), torch.device("meta")).z.device.type == "meta"


def values(batches: Iterator[tuple[Micro, Any]], number: int | None = None) -> list[list[int]]:
    return [data.tolist() for _, data in islice(batches, number)]


def endless_plan(step: int, epoch: int = 0) -> Iterator[Micro]:
    """Steps of two micro-batches of three samples, from one step on."""
    while True:
        yield from micros(Progress(epoch, step * 6, step), 1 << 40, 6, 3)
        step += 1


@pytest.mark.parametrize("processes", [0, 1])
def test_a_stream_ends_its_epoch_and_begins_anew_in_the_next(processes: int) -> None:
    stream = Stream(Endless(8), size=3, num_workers=processes, device="cpu")
    whole = [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert values(stream.batches(endless_plan(0))) == whole
    assert values(stream.batches(endless_plan(2))) == []
    assert values(stream.batches(endless_plan(2, epoch=1)), 1) == whole[:1]
    assert values(stream.batches(endless_plan(3, epoch=2))) == whole


def test_a_streams_last_micro_batch_says_how_many_samples_it_has() -> None:
    found = [micro for micro, _ in Stream(Endless(8), size=3, device="cpu").batches(endless_plan(0))]
    assert [micro.stop - micro.start for micro in found] == [3, 3, 2]


def test_what_a_stream_gave_for_a_step_that_is_redone_comes_again() -> None:
    stream = Stream(Endless(100), size=3, device="cpu")
    before = values(stream.batches(endless_plan(0)), 3)  # step 0, and half of step 1
    assert values(stream.batches(endless_plan(1)), 3) == [[6, 7, 8], [9, 10, 11], [12, 13, 14]]
    assert before[2] == [6, 7, 8]
    assert values(stream.batches(endless_plan(2)), 2) == [[12, 13, 14], [15, 16, 17]]


def test_what_a_stream_gave_for_a_step_that_was_committed_does_not_come_again() -> None:
    stream = Stream(Endless(100), size=3, device="cpu")
    values(stream.batches(endless_plan(0)), 2)
    assert values(stream.batches(endless_plan(1)), 1) == [[6, 7, 8]]


def test_a_stream_that_ended_in_a_step_that_is_redone_ends_there_again() -> None:
    stream = Stream(Endless(8), size=3, device="cpu")
    assert len(values(stream.batches(endless_plan(0)))) == 3
    assert values(stream.batches(endless_plan(1))) == [[6, 7]]


def test_the_log_says_what_a_stream_promises(caplog: pytest.LogCaptureFixture) -> None:
    Stream(Endless(8), size=3, device="cpu")
    assert "at least once" in caplog.text
