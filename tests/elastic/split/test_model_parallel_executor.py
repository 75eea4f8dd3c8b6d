"""A section whose plan places operators one by one trains in one process, as the whole model would."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.elastic.split.model_parallel_executor import Spread, assigned
from grus.estimation.script_loader import load
from grus.model.errors import BadInput
from grus.model.jobs import Launch, Phase
from grus.partition import parse_devices
from grus.partition.capture_profile import capture
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.placement_plan_file import Split, written
from tests.elastic import spread_program
from tests.elastic.harness import ROOT, Pool
from tests.elastic.spread_program import BATCH, SAMPLES, TARGET

STEPS = -(-SAMPLES // BATCH)
EXACT = 1e-12


def planned(folder: Path) -> Split:
    """One branch and its head on the second GPU, everything else on the first."""
    training = load(TARGET, folder)
    used = parse_devices.gpus("2xvirtual-2GB")
    topology = parse_devices.topology(used)
    captured = capture(training, BATCH, used[0].kind)
    graph = captured.graph
    homes = [int((op.group or op.name) in ("linear_2", "tanh", "linear_4", "mse_loss")) for op in graph.ops]
    return Split(
        target=TARGET,
        batch=BATCH,
        graph=graph,
        topology=topology,
        plan=simulate(graph, topology, homes, ranks(graph.topological)),
        places=captured.devices_of_nodes(homes),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(spread_program.__file__, tmp_path)
    return tmp_path


@pytest.fixture
def plan(folder: Path) -> Split:
    made = planned(folder)
    (folder / "plan.json").write_text(written(made))
    return made


def trained(folder: Path, job: str, **section: Any) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of all steps as they are reported, and the model that is left."""
    report = folder / f"{job}.report"
    said = json.dumps({"make": TARGET, **section})
    command = [sys.executable, "-m", "grus.elastic.section", said]
    env = {**os.environ, "GRUS_JOB": job, "GRUS_REPORT": str(report), "GRUS_GPUS": "2"}
    done = subprocess.run(
        command, cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)$", done.stdout, re.MULTILINE)]
    return losses, torch.load(folder / "checkpoints" / job / "model.pt", weights_only=True)


def test_a_branching_model_trains_by_its_plan_as_in_one_piece_with_every_sample(
    folder: Path, plan: Split
) -> None:
    assert set(plan.places.values()) == {0, 1}
    assert SAMPLES % BATCH, "an epoch shall end with a smaller batch"
    spread, weights = trained(folder, "spread", plan="plan.json")
    whole, expected = trained(folder, "whole")
    assert len(spread) == 2 * STEPS
    assert spread == whole
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=EXACT)
    assert spread[-1] < spread[0]


def test_it_pauses_and_goes_on_in_one_process_with_two_gpus(folder: Path, plan: Split) -> None:
    section = {"make": TARGET.replace(":make", ":long"), "plan": "plan.json"}
    given = {
        "train": section,
        "launch": "once",
        "resources": {"gpu": 2},
        "workdir": str(folder),
        "checkpoint": {"grace": "30s"},
    }
    with Pool(folder, gpus=2) as pool:
        made = JobIn.model_validate(given)
        spec = to_spec(made)
        id_ = pool.services.actions.submit(ROOT, spec, launch_given=made.launch_given).result().id
        pool.until(lambda: "loss" in "\n".join(pool.logs(id_).values()))
        pool.pause(id_)
        pool.until_phase(id_, Phase.PAUSED)
        pool.resume(id_)
        pool.until(lambda: "going on from the checkpoint of step" in "\n".join(pool.logs(id_).values()))
        pool.until(lambda: "loss" in "\n".join(pool.logs(id_).values()).partition("going on")[2])
        said = "\n".join(pool.logs(id_).values())
        processes = len(pool.pids(id_))
    assert spec.launch is Launch.ONCE
    assert processes == 1
    assert re.search(r"checkpoint of step [1-9]", said)


def test_operators_and_weights_are_where_the_plan_says(folder: Path, plan: Split) -> None:
    training = load(TARGET, folder)
    spread = Spread(training, plan, training.model(), SAMPLES)
    bodies = [one.get_submodule("body") for one in spread._programs.values()]
    assert len(bodies) == 2
    for body in bodies:
        assert isinstance(body, fx.GraphModule)
        copies = [node for node in body.graph.nodes if "_to_copy" in str(node.target)]
        assert [node.args[0].name for node in copies] == ["relu", "tanh", "mse_loss"]
    names = dict(training.model().named_parameters())
    assert [name for name, _ in spread.model.named_parameters()] == list(names)


def test_a_plan_of_another_batch_model_or_number_of_processes_is_refused(
    folder: Path, plan: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = load(TARGET, folder)

    def refused(given: Split, samples: int = SAMPLES) -> str:
        with pytest.raises(BadInput) as error:
            Spread(training, given, training.model(), samples)
        return str(error.value)

    assert "for batches of 8" in refused(replace(plan, batch=8))
    fewer = {name: place for name, place in plan.places.items() if name != "tanh"}
    assert "another model" in refused(replace(plan, places=fewer))
    monkeypatch.setenv("GRUS_GPUS", "1")
    assert "is for 2 GPUs, and this process has 1" in refused(plan)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "launch: once" in refused(plan)


def test_samples_of_another_shape_are_told(folder: Path, plan: Split) -> None:
    training = load(TARGET, folder)
    spread = Spread(training, plan, training.model(), SAMPLES)
    x, kind, size = training.batch(BATCH)
    with pytest.raises(BadInput, match="like the example batch"):
        spread([x[:, :5], kind, size])


def test_the_larger_gpu_takes_what_was_planned_for_the_larger_one() -> None:
    assert assigned([8, 24], [24, 8, 16]) == [2, 0]
    assert assigned([8, 8], [8, 8]) == [0, 1]
