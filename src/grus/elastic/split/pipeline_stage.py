"""Pipeline stage of a split model: micro-batches flow through all stages and their gradients back.

The schedules are torch's. GPipe runs all micro-batches forward before the first backward pass; 1F1B admits
only as many as keep every stage busy. Shapes are known before the first step, so no trial run on data is
needed, and the statistics of BatchNorm see every micro-batch once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.fx import GraphModule

from grus.partition.tracing.split_stages import Flow, PartitionStage

SCHEDULES: dict[str, type[PipelineScheduleSingle]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Pipeline:
    """This process's stage, in a group of processes that hold one stage each, in order."""

    def __init__(
        self,
        stage: PartitionStage,
        module: GraphModule,
        flows: Sequence[Sequence[Flow]],
        group: dist.ProcessGroup | None,
        device: torch.device,
        schedule: str = "1f1b",
    ) -> None:
        self._stage = stage
        self._module = module
        self._flows = flows
        self._group = group
        self._device = device
        self._schedule = SCHEDULES[schedule]
        self._made: tuple[int, PipelineScheduleSingle] | None = None

    @property
    def last(self) -> bool:
        return self._stage.number == len(self._flows)

    def step(self, batch: Mapping[str, Tensor], parts: int) -> float | None:
        """Forward and backward over a batch of so many micro-batches: gradients of the mean of their losses.

        `batch` has the leaves that this stage reads. The mean of the losses, where it is known: at the end.
        """
        losses: list[Tensor] = []
        target = torch.zeros(parts) if self.last else None  # required, but unused: the loss is inside
        given: dict[str, Any] = {**batch, "target": target, "losses": losses, "return_outputs": False}
        self._ready(parts).step(**given)
        return torch.stack([one.detach() for one in losses]).mean().item() if self.last else None

    def _ready(self, parts: int) -> PipelineScheduleSingle:
        """Return the schedule for so many micro-batches; another
        number (the end of an epoch) needs other buffers.
        """
        if self._made is None or self._made[0] != parts:
            self._made = None  # first: two sets of buffers might not fit
            count = len(self._flows) + 1
            stage = PipelineStage(
                self._module,
                self._stage.number,
                count,
                self._device,
                input_args=self._examples(self._stage.number - 1),
                output_args=self._examples(self._stage.number),
                group=self._group,
            )
            # Torch's 1F1B refuses fewer micro-batches than stages; GPipe gives the same result there.
            schedule = self._schedule if parts >= count else ScheduleGPipe
            self._made = (parts, schedule(stage, parts, loss_fn=lambda loss, _: loss))
        return self._made[1]

    def _examples(self, border: int) -> tuple[Tensor, ...]:
        """Return the shapes of the tensors that cross this border, without memory."""
        if border < 0:
            return ()
        if border == len(self._flows):
            return (torch.empty((), device="meta", requires_grad=True),)  # the loss
        return tuple(
            torch.empty(flow.shape, dtype=flow.dtype, device="meta", requires_grad=flow.requires_grad)
            for flow in self._flows[border]
        )
