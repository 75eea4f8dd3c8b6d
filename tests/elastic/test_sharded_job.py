"""A job whose workers hold parts of one state, under a real control plane."""

import json
import sys
from pathlib import Path

from grus.model.jobs import Phase
from tests.elastic.harness import Pool

PROGRAM = """
import torch, grus
from torch import nn
from pathlib import Path
import sys, time

torch.manual_seed(0)
blocks = [nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)) for _ in range(4)]
model = nn.Sequential(*blocks, nn.Linear(16, 1))
x = torch.randn(64, 16)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
run = grus.train(model, torch.optim.Adam(model.parameters(), 1e-3), data, global_batch=8, micro_batch=4,
                 epochs=4, strategy="fsdp")
gate, told = Path(sys.argv[1]), Path(sys.argv[2])
for batch in run:
    loss = run.step(((run.model(batch.x) - batch.y) ** 2).mean())
    if loss is not None and run.rank == 0:
        with told.open("a") as file:
            file.write(f'{{"step": {run.steps}, "world": {run.world}, "loss": {loss}}}\\n')
    while run.steps >= int(gate.read_text()) and not run.should_pause():
        time.sleep(0.002)
"""


def test_another_size_is_a_checkpoint_and_a_new_start_and_no_step_is_lost(tmp_path: Path) -> None:
    """On one worker, then on two, then on one again."""
    program, gate, told = (tmp_path / name for name in ("train.py", "gate", "told"))
    program.write_text(PROGRAM)
    gate.write_text("8")

    def steps() -> list[dict[str, float]]:
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    with Pool(tmp_path, gpus=2) as pool:
        run = [sys.executable, str(program), str(gate), str(told)]
        job = pool.submit(run, gpu="1..2", size=1, checkpoint={"path": "kept", "grace": "20s"})
        for size, until in ((2, 16), (1, 1000)):
            before = len(steps())
            pool.until(lambda before=before: len(steps()) >= max(8, before))  # type: ignore[misc]  # bound now
            attempt = pool.job(job).attempt
            pool.scale(job, size)
            pool.until(lambda attempt=attempt: pool.job(job).attempt > attempt)  # type: ignore[misc]  # bound now
            gate.write_text(str(until))
            pool.until(lambda size=size: steps()[-1]["world"] == size)  # type: ignore[misc]  # bound now
        pool.until_phase(job, Phase.SUCCEEDED)
    assert [line["step"] for line in steps()] == list(range(1, 33))
    assert {line["world"] for line in steps()} == {1, 2}
