"""A worker under torchft, as its own example of fault-tolerant data parallelism is written."""

import logging
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torchft import DistributedDataParallel, DistributedSampler, Manager, Optimizer, ProcessGroupGloo
from torchft.checkpointing.pg_transport import PGTransport

from benchmarks.resizing import workload
from benchmarks.resizing.steps import StepLog

GROUP = "REPLICA_GROUP_ID"
MOST = 4


class Parallel(DistributedDataParallel):  # type: ignore[misc]  # torchft need not be installed
    """torchft's own, but it survives a lost peer on gloo: in 0.2.0 its hook then fails an assertion.

    Without this every loss restarts all workers from nothing, which would flatter whoever is compared.
    """

    @staticmethod
    def _comm_hook(
        state: Manager,
        bucket: dist.GradBucket,  # type: ignore[name-defined]  # exported at run time only
    ) -> torch.futures.Future[torch.Tensor]:
        state.allreduce(bucket.buffer()).wait()
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done


def main() -> None:
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.INFO)
    group = int(os.environ[GROUP])
    model = workload.tiny()

    def state() -> dict[str, object]:
        return {"model": parallel.state_dict(), "optim": optimizer.state_dict()}

    def load(found: dict[str, dict[str, object]]) -> None:
        parallel.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optim"])

    exchange = ProcessGroupGloo(timeout=timedelta(seconds=5))
    manager = Manager(
        pg=exchange,
        min_replica_size=1,
        load_state_dict=load,
        state_dict=state,
        replica_id=f"resize_{group}",
        timeout=timedelta(seconds=30),
        hostname="127.0.0.1",
        checkpoint_transport=PGTransport(exchange, timeout=timedelta(seconds=10), device=torch.device("cpu")),
    )
    parallel = Parallel(manager, model)
    optimizer = Optimizer(manager, workload.adam(model))
    data = workload.examples()
    sampler = DistributedSampler(
        data, replica_rank=group % MOST, num_replica_groups=MOST, group_rank=0, num_replicas=1, shuffle=True
    )
    loader = DataLoader(data, batch_size=workload.BATCH, sampler=sampler, drop_last=True)
    log = StepLog()
    while True:
        for inputs, targets in loader:
            before = manager.current_step()
            log.begin()
            optimizer.zero_grad()
            loss = workload.loss(parallel(inputs), targets)
            workload.compute()
            loss.backward()
            optimizer.step()
            if manager.current_step() > before:
                log.done(manager.current_step(), manager.num_participants())


if __name__ == "__main__":
    main()
