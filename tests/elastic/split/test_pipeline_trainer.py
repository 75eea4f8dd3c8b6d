"""Trainings split over real processes that meet over gloo, beside the same training in one piece."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import default_collate

from grus.elastic.data import sample_schedule
from grus.elastic.data.sample_schedule import Progress
from grus.elastic.rendezvous.device_errors import OUT
from grus.elastic.split import stage_checkpoints
from tests.elastic import split_program
from tests.elastic.parts import free_port
from tests.elastic.split_program import BATCH, EPOCHS, SEED
from tests.fork_server import ForkServer
from tests.partition.networks import loss

PATIENCE = 600.0
"""Seconds; the deadline is for broken code only, and each process captures a model."""
EXACT = 1e-9
"""In float64. Biases before a BatchNorm have no gradient but rounding errors, which Adam makes larger."""


STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class Workers:
    """The processes of one attempt."""

    def __init__(self, forks: ForkServer, folder: Path, world: int, network: str, **env: str) -> None:
        self.folder = folder
        port = free_port()
        self.gate = folder / "gate"
        self.control = folder / "control.json"
        self.control.write_text("{}")
        common = {
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GRUS_CONTROL": str(self.control),
            "GATE": str(self.gate),
        }
        command = (split_program.__name__, network, str(folder / "out"))
        self.said = [folder / f"said-{rank}-{port}" for rank in range(world)]
        self.processes = []
        for rank in range(world):
            own = {**common, **env, "RANK": str(rank), "GRUS_REPORT": str(folder / f"report-{rank}-{port}")}
            self.said[rank].touch()
            self.processes.append(forks.run(*command, environment=own, output=self.said[rank]))
        self.report = folder / f"report-0-{port}"

    def pause(self) -> None:
        fresh = self.control.with_suffix(".new")
        fresh.write_text(json.dumps({"pause": True}))
        fresh.replace(self.control)

    def until_step(self, step: int) -> None:
        """Reads along what the first worker says."""
        with subprocess.Popen(
            ["tail", "-n", "+1", "-F", str(self.said[0])], stdout=subprocess.PIPE, text=True, stderr=-3
        ) as tail:
            assert tail.stdout is not None
            for line in tail.stdout:
                if line.startswith(f"step {step},"):
                    break
                assert self.processes[0].poll() is None, self.words()
            tail.kill()

    def ends(self) -> list[int]:
        return [process.wait(PATIENCE) for process in self.processes]

    def words(self) -> str:
        return "\n".join(path.read_text() for path in self.said)


@contextmanager
def workers(
    forks: ForkServer, folder: Path, world: int, network: str = "residual", **env: str
) -> Iterator[Workers]:
    started = Workers(forks, folder, world, network, **env)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


def in_one_piece(micro: int, network: str = "residual") -> dict[str, Tensor]:
    """The same training on one worker, with the same micro-batches."""
    training = split_program.training(network)
    torch.manual_seed(SEED)
    model = training.model()
    optimizer = training.optimizer(model.parameters())
    data = training.data() if training.data is not None else None
    assert data is not None
    samples = len(data)
    at = Progress()
    while not sample_schedule.finished(at, EPOCHS):
        order = sample_schedule.order(SEED, at.epoch, len(data))
        micros = sample_schedule.micros(at, samples, BATCH, micro)
        for one in micros:
            batch = default_collate([data[int(number)] for number in order[one.start : one.stop]])
            (loss(model, batch) / len(micros)).backward()
        optimizer.step()
        optimizer.zero_grad()
        at = sample_schedule.after(at, samples, BATCH)
    return model.state_dict()


def same(found: dict[str, Tensor], expected: dict[str, Tensor], *, statistics: bool = True) -> bool:
    assert sorted(found) == sorted(expected)
    assert sorted(found) == sorted(expected)
    names = [name for name in expected if statistics or ("running" not in name and "batches" not in name)]
    return all(torch.allclose(found[name], expected[name], rtol=0, atol=EXACT) for name in names)


def result(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(folder / "out" / "model.pt", weights_only=True)
    return found


def test_a_run_paused_on_two_copies_of_two_stages_goes_on_with_one(forks: ForkServer, tmp_path: Path) -> None:
    """And trains the model that one worker trains, whose micro-batches are the same."""
    (tmp_path / "gate").write_text("2")
    with workers(forks, tmp_path, 4) as first:
        first.until_step(2)
        first.pause()
        first.gate.unlink()
        assert first.ends() == [0] * 4, first.words()
        assert "2 stages in 2 copies" in first.words()
    found = stage_checkpoints.newest(tmp_path / "out")
    assert found is not None
    assert found[0] == 2
    assert 2 <= found[1] < 8
    with workers(forks, tmp_path, 2) as second:
        assert second.ends() == [0, 0], second.words()
        assert f"going on from the checkpoint of step {found[1]}" in second.words()
        last = json.loads(second.report.read_text().splitlines()[-1])
    assert last["figures"]["step"] == last["figures"]["total"] == 8
    assert last["figures"]["loss"] > 0
    assert same(result(tmp_path), in_one_piece(2), statistics=False)


def test_who_loses_a_neighbour_says_so_and_the_next_attempt_goes_on(
    forks: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "gate").write_text("3")
    with workers(forks, tmp_path, 2, GRUS_CHECKPOINT_EVERY="0.000001") as first:
        first.until_step(3)
        first.processes[1].send_signal(signal.SIGKILL)
        first.gate.unlink()
        assert first.ends() == [OUT, -signal.SIGKILL], first.words()
        assert "another worker is lost (this is stage 0)" in first.words()
        found = stage_checkpoints.newest(tmp_path / "out")
        assert found is not None
        assert f"next attempt (`retries`) begins with the checkpoint of step {found[1]}" in first.words()
    with workers(forks, tmp_path, 2) as second:
        assert second.ends() == [0, 0], second.words()
        assert f"going on from the checkpoint of step {found[1]}" in second.words()
    assert same(result(tmp_path), in_one_piece(2))


def test_stages_that_share_a_weight_keep_it_equal_and_train_one(forks: ForkServer, tmp_path: Path) -> None:
    with workers(forks, tmp_path, 2, "sure") as both:
        assert both.ends() == [0, 0], both.words()
        assert "2 stages" in both.words()
    found = stage_checkpoints.newest(tmp_path / "out")
    assert found is not None
    one, two = (stage_checkpoints.load(tmp_path / "out", *found, ["embed.weight"], stage) for stage in (0, 1))
    assert torch.equal(one.model["embed.weight"], two.model["embed.weight"])
    assert same(result(tmp_path), in_one_piece(2, "sure"))
