"""A real served model: asked by real requests while replicas are killed, scaled and outlive their server."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import torch
from torch import nn

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.estimation.script_loader import function
from grus.model.errors import BadInput, Conflict, GrusError, NotFound
from grus.sdk.client import Client, Handle
from tests.live import witness
from tests.live.pool import PATIENCE, LivePool
from tests.server.process import eventually

ROOT = Path(__file__).parents[2]
NETS = """
import time
from torch import nn

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, samples):
        time.sleep(0.01)  # so that there are always requests under way
        return self.inner(samples) / (samples[:, :1] != 7)  # seven has no answer

def network():
    return Slow()
"""
SAMPLES = [[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]]
ASKING = 4
"""Threads."""


class Served:
    """The model behind its server, and what it must say."""

    def __init__(self, pool: LivePool, handle: Handle, expected: list[list[float]]) -> None:
        self.pool, self.handle, self.expected = pool, handle, expected

    def ask(self, client: Client | None = None) -> bool:
        said = (client or self.pool.grus).predict(self.handle.id, SAMPLES)
        return all(
            abs(one - other) < 1e-5
            for row, wanted in zip(said, self.expected, strict=True)
            for one, other in zip(row, wanted, strict=True)
        )

    def pids(self) -> list[int]:
        """Of the replicas, as the kernel tells it."""
        return sorted(one.pid for one in witness.workers(self.pool.home) if one.job == self.handle.id)

    def until(self, replicas: int) -> None:
        """So many replicas live and answer."""
        eventually(lambda: len(self.pids()) == replicas, f"{replicas} replicas live", PATIENCE)
        eventually(lambda: len(self.answering()) == replicas, f"{replicas} replicas answer", PATIENCE)

    def answering(self) -> set[int]:
        """Ports on which replicas are ready, as their reports say it."""
        workers = self.pool.home / "state" / "engine" / "workers"
        alive = [one.worker for one in witness.workers(self.pool.home) if one.job == self.handle.id]
        said = [file.read_text() for one in alive if (file := workers / one / "report").exists()]
        return {int(port) for text in said for port in re.findall(r'"address": "127.0.0.1:(\d+)"', text)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "nets.py").write_text(NETS)
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    torch.save({f"inner.{name}": one for name, one in model.state_dict().items()}, folder / "model.pt")
    expected = model(torch.tensor(SAMPLES)).tolist()
    with LivePool(folder, "1x4x1GB") as pool:
        pool.grus.put_user("ada", {"role": "member", "accept_shared_account": True})
        pool.grus.put_user("eve", {"role": "member"})
        pool.grus.put_queue("vision", {"quota": 2, "members": ["ada"]})
        handle = pool.grus.submit(
            {
                "type": "serve",
                "name": "model",
                "queue": "vision",
                "serve": {
                    "model": "nets.py:network",
                    "weights": "model.pt",
                    "batch": 65536,
                    "replicas": "1..3",
                },
                "resources": {"gpu": 0},
                "workdir": str(folder),
                "env": {"PYTHONPATH": f"{ROOT}/src", "OMP_NUM_THREADS": "1"},
            }
        )
        found = Served(pool, handle, expected)
        handle.scale(2)
        found.until(2)
        yield found


@contextmanager
def asked_all_the_time(served: Served) -> Iterator[Callable[[], int]]:
    """Threads that ask; the number of answers so far. Every request must be answered, and rightly."""
    over, wrong, count = threading.Event(), [], [0] * ASKING

    def ask(number: int) -> None:
        with served.pool.client() as client:
            while not over.is_set():
                try:
                    right = served.ask(client)
                except GrusError as error:
                    wrong.append(str(error))
                    continue
                count[number] += right
                if not right:
                    wrong.append("another answer")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(ASKING)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(count)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def more(count: Callable[[], int], answers: int) -> None:
    """Wait for so many more answers."""
    before = count()
    eventually(lambda: count() >= before + answers, f"{answers} more answers", PATIENCE)


def test_it_says_what_the_trained_model_says(served: Served) -> None:
    assert served.ask()
    job = served.handle.refresh()
    assert (job.type, job.priority, job.phase) == ("serve", 125, "running")


def test_a_replica_that_is_killed_under_load_costs_no_answer(served: Served) -> None:
    with asked_all_the_time(served) as count:
        more(count, 50)
        killed, other = served.pids()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: killed not in served.pids(), "it is gone", PATIENCE)
        served.until(2)
        more(count, 50)
        assert other in served.pids(), "the other one goes on"
    assert served.handle.refresh().attempt == 1


def test_scaling_under_load_costs_no_answer(served: Served) -> None:
    with asked_all_the_time(served) as count:
        for size in (1, 2):
            served.handle.scale(size)
            served.until(size)
            more(count, 20)


def test_replicas_outlive_their_server_and_the_next_one_finds_them(served: Served) -> None:
    before = served.pids()
    with asked_all_the_time(served) as count:
        more(count, 20)
        served.pool.kill()
        served.pool.start()
        more(count, 20)
    assert served.pids() == before


def test_only_who_sees_the_job_may_ask_it(served: Served) -> None:
    secrets = {who: served.pool.grus.new_token({"user": who}).secret for who in ("ada", "eve")}
    address = served.pool.grus.address
    with Client(address, secrets["ada"]) as ada, Client(address, secrets["eve"]) as eve:
        assert served.ask(ada)
        with pytest.raises(NotFound, match="there is no job"):
            served.ask(eve)
    path = f"{address}/v1/jobs/{served.handle.id}/predict"
    assert httpx2.post(path, json={"inputs": SAMPLES}, trust_env=False).status_code == 401
    for port in served.answering():
        for proof in ({}, {"Authorization": f"Bearer {secrets['ada']}"}, {"Authorization": "token guess"}):
            direct = httpx2.post(
                f"http://127.0.0.1:{port}/predict", json={"inputs": SAMPLES}, headers=proof, trust_env=False
            )
            assert direct.status_code == 401


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "at least one sample"),
        ([[0.1, 0.2]], "are not what this model takes"),
        ([[0.1], [0.2, 0.3]], "of one shape"),
        ([["a", "b", "c"]], "numbers only"),
        ([[float("nan"), 0.0, 0.0]], "finite numbers"),
        ([[float("inf"), 0.0, 0.0]], "finite numbers"),
        ([[1e308, 0.0, 0.0]], "range of float32"),
        (None, "list of samples"),
    ],
)
def test_what_the_model_cannot_take_is_told_and_harms_nobody(
    served: Served, inputs: object, words: str
) -> None:
    before = served.pids()
    with pytest.raises(BadInput, match=words):
        served.handle.predict(inputs)
    assert served.ask()
    assert served.pids() == before


def test_a_model_that_gives_nan_says_so(served: Served) -> None:
    with pytest.raises(GrusError, match="not finite"):
        served.handle.predict([[7.0, 1.0, 1.0]])


def test_a_body_may_have_16_mebibytes_and_not_one_more(served: Served) -> None:
    large = [[0.5, 0.25, 0.125]] * 200_000
    assert len(served.handle.predict(large)) == len(large)
    with pytest.raises(GrusError, match="at most 16777216 bytes"):
        served.handle.predict([[0.123456789] * 3] * 600_000)
    assert served.ask()


def test_a_job_that_is_not_served_or_paused_refuses_at_once(served: Served) -> None:
    served.pool.submit("plain")
    with pytest.raises(Conflict, match="only one of type serve"):
        served.pool.handles["plain"].predict(SAMPLES)
    served.handle.pause()
    with pytest.raises(Conflict, match="paused or stopped"):
        served.ask()
    served.handle.resume()
    served.until(2)
    assert served.ask()


def test_the_example_that_was_trained_is_the_example_that_is_served(served: Served, tmp_path: Path) -> None:
    """The two job files as they are, but for where they write and how long they train."""
    examples = ROOT / "examples"
    env = {"PYTHONPATH": f"{ROOT}/src", "OMP_NUM_THREADS": "1"}
    trains, serves = (
        parse_job_file((examples / name).read_text(), folder=str(examples))[0].model_dump(
            by_alias=True, exclude_unset=True, mode="json"
        )
        for name in ("digits.yaml", "digits-serve.yaml")
    )
    kept = str(tmp_path / "digits")
    trains |= {"checkpoint": {"path": kept}, "resources": {"gpu": 1}, "env": env}
    trains["train"] |= {"epochs": 2}
    trained = served.pool.grus.submit(trains)
    assert trained.wait(PATIENCE).phase == "succeeded"
    assert trained.refresh().progress["accuracy"] > 0.9
    answers = served.pool.grus.submit({**serves, "serve": {"model": kept}, "env": env})
    pictures, classes = function("digits.py:unseen", examples)().tensors
    eventually(lambda: answers.refresh().phase == "running", "it runs", PATIENCE)
    said = torch.tensor(answers.predict(pictures))
    assert (said.argmax(1) == classes).float().mean().item() > 0.9
    answers.stop()
