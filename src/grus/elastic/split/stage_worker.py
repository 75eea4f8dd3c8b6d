"""One worker's part of a split training: its stage with weights, optimizer and neighbors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from grus.elastic.data.sample_schedule import Progress
from grus.elastic.split import stage_checkpoints
from grus.elastic.split.parallel_stage_layout import PipelineSplit
from grus.elastic.split.pipeline_stage import Pipeline
from grus.elastic.split.rank_topology import RankPlacement, average, noticing
from grus.elastic.split.stage_checkpoints import Saved
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput, Mistake
from grus.partition.tracing.materialize_tensors import build_part
from grus.partition.tracing.split_stages import PartitionStage, build, cut, flows, leaves, shared

MODEL = "model."
"""Prefix of the model's names in those of the program."""


class StageRunner:
    """A stage at work. All workers make theirs together; a worker without a stage does nothing."""

    def __init__(
        self,
        training: Training,
        program: ExportedProgram,
        division: PipelineSplit,
        place: RankPlacement,
        folder: Path | None,
    ) -> None:
        self.number, self.replica = place.rank % division.stages, place.rank // division.stages
        self.idle = self.replica >= division.replicas
        self.progress = Progress()
        self._division = division
        self._folder = folder
        self._leaves = leaves(program)
        self._shapes = _shapes(program)
        stages = self._stages = cut(program, division.stage_of)
        self._pipes, self._copies = _groups(division)
        self._sums = _sums(division, shared(stages), place.rank)
        if self.idle:
            return
        self._stage = stages[self.number]
        tensors, saved = self._tensors(training, program, place)
        self._module = build(self._stage, tensors, place.device)
        for one, name in self._stage.tied:
            tensors[one] = tensors[name]
        self._held = {name.removeprefix(MODEL): tensor for name, tensor in tensors.items()}
        self._own = {name: one for name, one in self._held.items() if isinstance(one, nn.Parameter)}
        self._optimizer = _optimizer(training.optimizer, program, stages, tensors)
        if saved is not None:
            self._restore(saved, place.device)
        self._pipeline = Pipeline(
            self._stage,
            self._module,
            flows(program, stages),
            self._pipes[self.replica],
            place.device,
            division.rhythm,
        )

    # -------------------------------------------------------------------------------------------- a step

    def step(self, batches: Sequence[Any]) -> float | None:
        """Forward, backward and update over these micro-batches; the loss, where it is known."""
        taken = [self._taken(batch) for batch in batches]
        batch = {name: torch.cat([one[name] for one in taken]) for name in self._stage.leaves}
        with noticing():
            loss = self._pipeline.step(batch, len(batches))
            self._add_up()
        if self._division.replicas > 1:
            average(list(self._module.parameters()), self._copies[self.number], self._division.replicas)
        if self._own:
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        return loss

    def _add_up(self) -> None:
        """The gradients of weights that other stages read too: each stage has only its own share of them."""
        for name, group in self._sums:
            parameter = self._own[name.removeprefix(MODEL)]
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad, group=group)

    def _taken(self, batch: Any) -> dict[str, Tensor]:
        """Return the tensors that this stage reads of a batch, by the program's names."""
        given = tree_leaves(batch)
        shapes = [tuple(one.shape) if isinstance(one, Tensor) else None for one in given]
        if shapes != self._shapes:
            rule = f"must give samples like the example batch: {_listed(self._shapes)} a micro-batch"
            raise BadInput([Mistake("data", rule, _listed(shapes))])
        found = dict(zip(self._leaves, given, strict=True))
        return {name: found[name] for name in self._stage.leaves}

    # ------------------------------------------------------------------------------------------ its state

    def save(self, progress: Progress) -> None:
        """Save the first copy of this stage; the other copies have the same state."""
        if self._folder is None or self.idle or self.replica:
            return
        states = {name: dict(self._optimizer.state.get(one, {})) for name, one in self._own.items()}
        held = {name: one.detach() for name, one in self._held.items()}
        at = (progress.epoch, progress.cursor, progress.step)
        stage_checkpoints.save(self._folder, self.number, self._division.stages, Saved(held, states, at))

    def gathered(self, program: ExportedProgram) -> dict[str, Tensor] | None:
        """The whole model on the host of the first worker; the training is over with it."""
        if self.idle or self.replica:
            return None
        self._optimizer.state.clear()  # there is memory for the other parts then
        del self._pipeline
        held = {name: one.detach().cpu() for name, one in self._held.items()}
        with noticing():
            for stage in self._stages[1:]:
                for name in (*stage.parameters, *stage.buffers):
                    if name in program.state_dict:
                        self._sent(name, stage.number, program.state_dict[name], held)
        tied = ((other, name) for stage in self._stages for other, name in stage.tied)
        if self.number:
            return None
        held |= {other.removeprefix(MODEL): held[name.removeprefix(MODEL)] for other, name in tied}
        return {name: one for name, one in held.items() if MODEL + name in program.state_dict}

    def _sent(self, name: str, sender: int, like: Tensor, held: dict[str, Tensor]) -> None:
        short = name.removeprefix(MODEL)
        if self.number == 0:
            held[short] = torch.empty(like.shape, dtype=like.dtype)
            dist.recv(held[short], src=sender)
        elif self.number == sender:
            dist.send(held[short].contiguous(), dst=0)

    def _tensors(
        self, training: Training, program: ExportedProgram, place: RankPlacement
    ) -> tuple[dict[str, Tensor], Saved | None]:
        """Return this stage's tensors on its device: from
        the newest checkpoint, or the model's initial ones.
        """
        names = (*self._stage.parameters, *self._stage.buffers)
        wanted = [name.removeprefix(MODEL) for name in names]
        saved = None
        if self._folder is not None:
            found = stage_checkpoints.newest(self._folder)
            if found is not None:
                saved = stage_checkpoints.load(self._folder, *found, wanted, self.number)
        values = saved.model if saved is not None else build_part(training.model, wanted, training.seed)
        tensors = {}
        for name, short in zip(names, wanted, strict=True):
            value = values[short] if short in values else program.constants[name]  # a number in the code
            value = value.detach().to(place.device)
            if name in self._stage.parameters:
                value = nn.Parameter(value, program.state_dict[name].requires_grad)
            tensors[name] = value
        return tensors, saved

    def _restore(self, saved: Saved, device: torch.device) -> None:
        for name, parameter in self._own.items():
            if name in saved.optimizer:
                state = saved.optimizer[name].items()
                self._optimizer.state[parameter] = {key: _moved(key, one, device) for key, one in state}
        self.progress = Progress(*saved.progress)


def _moved(key: str, value: Any, device: torch.device) -> Any:
    """Steps are counted on the host."""
    return value.to(device) if isinstance(value, Tensor) and key != "step" else value


def _groups(division: PipelineSplit) -> tuple[list[dist.ProcessGroup], list[dist.ProcessGroup]]:
    """Return the groups of each copy's stages, and of each stage's copies; every worker makes all of them."""
    stages, replicas = range(division.stages), range(division.replicas)
    with noticing():
        pipes = [dist.new_group([copy * division.stages + one for one in stages]) for copy in replicas]
        copies = [dist.new_group([copy * division.stages + one for copy in replicas]) for one in stages]
    return pipes, copies


def _sums(
    division: PipelineSplit, weights: Mapping[str, tuple[int, ...]], rank: int
) -> list[tuple[str, dist.ProcessGroup]]:
    """The weights that this worker's stage shares with others, and the workers of its copy that have them."""
    found = []
    with noticing():
        for copy in range(division.replicas):
            for name, stages in weights.items():
                ranks = [copy * division.stages + stage for stage in stages]
                group = dist.new_group(ranks)
                if rank in ranks:
                    found.append((name, group))
    return found


def _shapes(program: ExportedProgram) -> list[tuple[int, ...] | None]:
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    found = (values.get(name) for name in leaves(program))
    return [tuple(one.shape) if isinstance(one, Tensor) else None for one in found]


def _listed(shapes: Sequence[tuple[int, ...] | None]) -> str:
    return ", ".join(" x ".join(map(str, shape)) if shape else "a number" for shape in shapes)


def _optimizer(
    make: Callable[[Iterable[nn.Parameter]], Optimizer],
    program: ExportedProgram,
    stages: Sequence[PartitionStage],
    own: Mapping[str, Tensor],
) -> Optimizer:
    """Over the parameters of this stage.

    It is made of all of the model's, in their order, for it may treat them differently; those of other stages
    are shapes without memory, and are taken out again.
    """
    same = {other: name for stage in stages for other, name in stage.tied}
    everything: dict[str, nn.Parameter] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.PARAMETER and spec.target is not None:
            name = same.get(spec.target, spec.target)
            if name not in everything:
                everything[name] = _stand_in(program.state_dict[name], own.get(name))
    optimizer = make(list(everything.values()))
    for group in optimizer.param_groups:
        group["params"] = [one for one in group["params"] if not one.is_meta]
        if (
            group.get("foreach", False) is None
        ):  # GPUs then take all at once, which needs memory that no plan counts
            group["foreach"] = False
    for one in [one for one in optimizer.state if one.is_meta]:
        del optimizer.state[one]
    return optimizer


def _stand_in(shape: Tensor, own: Tensor | None) -> nn.Parameter:
    if isinstance(own, nn.Parameter):
        return own
    return nn.Parameter(torch.empty(shape.shape, dtype=shape.dtype, device="meta"), shape.requires_grad)
