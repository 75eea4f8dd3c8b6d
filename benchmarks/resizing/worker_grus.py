"""A worker with `grus.train`: the loop of the documentation, and the log of steps."""

import torch

import grus
from benchmarks.resizing import workload
from benchmarks.resizing.steps import StepLog

WORKERS = 4
"""Each takes one micro-batch of a step when all are there."""


def main() -> None:
    torch.set_num_threads(1)
    model = workload.tiny()
    run = grus.train(
        model,
        workload.adam(model),
        workload.examples(),
        global_batch=WORKERS * workload.BATCH,
        micro_batch=workload.BATCH,
        epochs=1_000_000,
    )
    log = StepLog()
    for batch in run:
        loss = workload.loss(run.model(batch.x), batch.y)
        if batch.micro.index < run.world:  # the first of this worker in this step
            log.begin()
            workload.compute()
        if run.step(loss) is not None:
            log.done(run.steps, run.world)


if __name__ == "__main__":
    main()
