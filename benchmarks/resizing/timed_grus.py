"""`grus.train` on the wide model, in turns."""

import torch
from torch.nn.functional import cross_entropy

import grus
from benchmarks.resizing import wide
from benchmarks.resizing.turns import Turn

WORKERS = 2


def main() -> None:
    torch.set_num_threads(1)
    model = wide.model()
    run = grus.train(
        model,
        wide.adam(model),
        wide.Examples(),
        global_batch=WORKERS * wide.BATCH,
        micro_batch=wide.BATCH,
        epochs=1,
    )
    turn = None
    for batch in run:
        if turn is None:  # only now is the team formed
            turn = Turn()
            turn.step()
        run.step(cross_entropy(run.model(batch.x), batch.y))
        turn.step()


if __name__ == "__main__":
    main()
