"""Entry point of elastic training: `grus.train`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from grus.elastic.run import Run
from grus.elastic.training_loop.validate_arguments import HANG_AFTER, check


def train(
    model: Any,
    optimizer: Any,
    dataset: Any,
    *,
    global_batch: int | tuple[int, int],
    epochs: int,
    scheduler: Any = None,
    micro_batch: int | None = None,
    seed: int = 0,
    scaler: Any = None,
    clip_norm: float | None = None,
    collate: Any = None,
    num_workers: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    hang_after: float = HANG_AFTER,
    audit: str | Path | None = None,
    scheduler_per: str = "step",
    exact: bool = True,
    on_epoch: Callable[[Run], None] | None = None,
    also: Any = None,
    backend: str | None = None,
    strategy: str | None = None,
    placed: bool = False,
) -> Run:
    """Start (or resume) a training run; iterate over the result. Raises BadInput with all errors.

    `global_batch` samples make a step, on any number of workers; with a pair of bounds the gradients' noise
    decides, and the learning rate is scaled. `micro_batch` is the number of samples that one worker computes
    at once; it never changes. `on_epoch(run)` is called on every worker when an epoch is done; use it for an
    evaluation. `also` names further objects with a `state_dict` that belong to the run (an average of the
    weights, say). `strategy` says in words how the model is held and computed ("bf16 checkpoint", "fsdp"; see
    docs/strategies.md); without it, the job's strategy applies. `placed` leaves the model on its present
    devices: on several GPUs of one process.
    """
    arguments = check(
        model,
        optimizer,
        dataset,
        global_batch=global_batch,
        epochs=epochs,
        scheduler=scheduler,
        micro_batch=micro_batch,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        audit=audit,
        scheduler_per=scheduler_per,
        exact=exact,
        also=also,
        strategy=strategy,
        seed=seed,
        scaler=scaler,
        clip_norm=clip_norm,
        collate=collate,
        num_workers=num_workers,
        hang_after=hang_after,
        backend=backend,
        placed=placed,
    )
    return Run(arguments, on_epoch)
