"""A script of Horovod's elastic mode runs on this runtime with one changed import."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import grus.elastic.adapters.horovod as hvd
from grus.elastic.adapters.horovod import sampler as sampler_module
from grus.elastic.selftest.conductor import Conductor, Worker
from tests.elastic.horovod_program import LR

PROGRAM = Path(__file__).with_name("horovod_program.py")
EXCHANGES = """
import torch
import grus.elastic.adapters.horovod as hvd

torch.set_num_threads(1)
hvd.init()
rank, size = hvd.rank(), hvd.size()
mine = torch.arange(3.0) + rank
assert hvd.allreduce(mine).tolist() == [0.5, 1.5, 2.5]
assert hvd.allreduce(mine, op=hvd.Sum, name="sum").tolist() == [1.0, 3.0, 5.0]
assert mine.tolist() == [rank, 1.0 + rank, 2.0 + rank]
assert hvd.allgather(torch.full((rank + 1, 2), rank)).tolist() == [[0, 0], [1, 1], [1, 1]]
assert hvd.broadcast(mine, root_rank=1).tolist() == [1.0, 2.0, 3.0]
told = hvd.broadcast_object({"epoch": 3, "names": ["a"]} if rank == 0 else None, root_rank=0)
assert told == {"epoch": 3, "names": ["a"]}

torch.manual_seed(rank)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 + rank, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert optimizer.param_groups[0]["lr"] == 0.1
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
before = model.weight.detach().clone()
(model(torch.ones(1, 2)) * (rank + 1)).sum().backward()
optimizer.step()
assert torch.allclose(model.weight, before - 0.1 * 1.5)
gathered = hvd.allgather(model.weight)
assert torch.equal(gathered[0], gathered[1])
print("all true", flush=True)
"""


def change(run: Conductor, members: list[Worker], *, lost: bool = False) -> int:
    run.form(members, lost=lost)
    run.allow(run.limit + 1)
    return run.trained(3)


def test_it_grows_survives_kill_9_and_shrinks(tmp_path: Path) -> None:
    with Conductor(tmp_path / "run", "gloo", program=[str(PROGRAM)]) as run:
        first, second, third = run.start([0, 1, 2])
        run.ready([first])
        change(run, [first])
        run.ready([second, third])
        change(run, [first, second, third])
        run.kill(first)
        change(run, [second, third], lost=True)
        change(run, [second])
        run.ended([third])  # with 0: it was told to leave
        (fourth,) = run.start([0])
        run.ready([fourth])
        change(run, [second, fourth])
        run.allow(1000)
        run.ended([second, fourth])
        ends = run.results()
        steps = [
            int(line.split()[0]) for line in (run.folder / f"losses-{second.name}").read_text().splitlines()
        ]
        at_first, at_last = run.losses(first)[1], run.losses(second)[steps[-1]]
    assert len(ends) == 2
    assert ends[0]["hash"] == ends[1]["hash"]
    assert ends[0]["batch"] == ends[1]["batch"] == steps[-1]
    assert {one["size"] for one in ends} == {2}
    assert all(one["lr"] == pytest.approx(2 * LR) for one in ends)
    assert ends[0]["resets"] == [3, 2, 1, 2]  # reset callbacks saw each new size
    assert all(after in (before, before + 1) for before, after in pairwise(steps))  # a step is redone at most
    assert at_last < at_first / 4


def test_a_pause_saves_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    kept = {"GRUS_JOB": "j0123456789", "GRUS_CHECKPOINT": str(tmp_path / "kept")}
    with Conductor(tmp_path / "first", "gloo", program=[str(PROGRAM)], env=kept) as run:
        workers = run.start([0, 1])
        run.ready(workers)
        done = change(run, workers)
        run.pause()
        run.paused()
        done = max(run.losses(workers[0]))
    with Conductor(
        tmp_path / "second", "gloo", program=[str(PROGRAM)], env={**kept, "GRUS_RESUME": "1"}
    ) as run:
        workers = run.start([0])
        run.ready(workers)
        run.form(workers)
        run.allow(1000)
        run.ended(workers)
        assert min(run.losses(workers[0])) == done + 1


def test_exchanges_mean_what_horovod_says() -> None:
    """Two workers under torchrun, which needs no control plane."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "--no-python",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", EXCHANGES],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.count("all true") == 2, done.stderr


def test_alone_an_optimizer_is_what_it_was() -> None:
    torch.manual_seed(0)
    hvd.init()
    plain, wrapped = nn.Linear(3, 2), nn.Linear(3, 2)
    wrapped.load_state_dict(plain.state_dict())
    first = torch.optim.Adam(plain.parameters(), lr=0.1)
    second = torch.optim.Adam(wrapped.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(second, 1, gamma=1.0)  # made before, stays attached
    second = hvd.DistributedOptimizer(second, backward_passes_per_step=2)
    for _ in range(3):
        x = torch.randn(4, 3)
        for model, optimizer in ((plain, first), (wrapped, second)):
            optimizer.zero_grad()
            for part in x.split(2):
                model(part).square().mean().backward()
            optimizer.step()
        schedule.step()
    assert torch.equal(plain.weight, wrapped.weight)
    assert isinstance(second, torch.optim.Adam)
    assert (hvd.rank(), hvd.size(), hvd.is_initialized()) == (0, 1, True)
    assert hvd.broadcast_object([1, "a"]) == [1, "a"]


def test_a_state_goes_back_to_its_last_commit() -> None:
    hvd.init()
    model = nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model=model, epoch=0, notes={"best": 1.0})
    committed = model.weight.detach().clone()
    state.commit()
    with torch.no_grad():
        model.weight += 1
    state.epoch, state.notes["best"] = 5, 0.0
    state.restore()
    assert torch.equal(model.weight, committed)
    assert (state.epoch, state.notes) == (0, {"best": 1.0})


def test_mistakes_are_told() -> None:
    hvd.shutdown()
    with pytest.raises(ValueError, match="not been initialized"):
        hvd.rank()
    hvd.init()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="does not name all"):
        hvd.DistributedOptimizer(optimizer, named_parameters=list(model.named_parameters())[:1])
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)


def test_the_rest_of_an_epoch_is_divided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_worker(rank: int, size: int) -> None:
        monkeypatch.setattr(sampler_module, "rank", lambda: rank)
        monkeypatch.setattr(sampler_module, "size", lambda: size)

    as_worker(0, 2)
    one = hvd.elastic.ElasticSampler(list(range(103)))
    used = []
    for rank in range(2):
        as_worker(rank, 2)
        used += list(hvd.elastic.ElasticSampler(list(range(103))))[:10]
    one.record_batch(0, 10)
    left = []
    for rank in range(3):
        as_worker(rank, 3)
        other = hvd.elastic.ElasticSampler(list(range(103)))
        other.load_state_dict(one.state_dict())
        assert len(list(other)) == len(other) == 28
        left += list(other)
    assert not set(used) & set(left)
    assert set(used) | set(left) == set(range(103))
    assert len(left) == 84  # 83 were left; one is used twice so that all have as many
    one.set_epoch(1)
    assert one.processed_num == 0
