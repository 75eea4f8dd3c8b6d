"""Split files: what was split, on which devices, how, and with which result. JSON, for people and programs.

A file holds the operators and the devices beside the plan, so that a reader can verify it without the model;
loading does so. `places` has the device of each operator of the exported program, by name: running it needs
no more.
"""

from collections.abc import Mapping, Sized
from dataclasses import dataclass

import msgspec

from grus.model.errors import BadInput, Mistake
from grus.partition.execution.placement_plan import Pipeline, Plan
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Device, Link, Topology
from grus.partition.verification.placement_check import faults, pipeline_faults

FORMAT = 1
MOST_TOLD = 5
"""Faults of a plan that are named; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One model, split."""

    target: str
    """Function that the user named: `train.py:make`."""
    batch: int
    """Samples of a step."""
    graph: OpGraph
    topology: Topology
    plan: Plan | Pipeline
    """A step with every operator where it likes, or stages for micro-batches."""
    places: Mapping[str, int]
    """Number of the device of each operator of the exported program."""


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    grus_plan: int
    target: str
    batch: int
    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]
    places: dict[str, int]
    step: Plan | None = None
    pipeline: Pipeline | None = None
    operators: tuple[Op, ...]
    edges: tuple[tuple[int, int], ...]


def written(split: Split) -> str:
    """Return the text of the file; the same split gives the same bytes."""
    plan = split.plan
    made = _File(
        grus_plan=FORMAT,
        target=split.target,
        batch=split.batch,
        devices=split.topology.devices,
        links=split.topology.links,
        places=dict(split.places),
        step=plan if isinstance(plan, Plan) else None,
        pipeline=plan if isinstance(plan, Pipeline) else None,
        operators=split.graph.ops,
        edges=split.graph.edges,
    )
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n"


def read(text: str | bytes) -> Split:
    """Raises BadInput with what is wrong with the file, or with the plan in it."""
    try:
        found = msgspec.json.decode(text, type=_File)
    except msgspec.MsgspecError as error:
        raise BadInput([Mistake("plan", f"is not a plan of `grus split`: {error}")]) from None
    plan = found.step or found.pipeline
    if found.grus_plan != FORMAT:
        rule = f"is of another version; this one reads {FORMAT}. Make it again with `grus split`"
        raise BadInput([Mistake("plan", rule, str(found.grus_plan))])
    if plan is None:
        raise BadInput([Mistake("plan", "must have a step or a pipeline")])
    graph = OpGraph(found.operators, found.edges)
    topology = Topology(found.devices, found.links)
    split = Split(
        target=found.target, batch=found.batch, graph=graph, topology=topology, plan=plan, places=found.places
    )
    wrong = _faults(split)
    if wrong:
        more = f" and {len(wrong) - MOST_TOLD} more" if len(wrong) > MOST_TOLD else ""
        rule = f"does not hold: {'; '.join(wrong[:MOST_TOLD])}{more}. Make it again with `grus split`"
        raise BadInput([Mistake("plan", rule)])
    return split


def _faults(split: Split) -> list[str]:
    count = len(split.topology.devices)
    wrong = [f"{name} is on device {place}" for name, place in split.places.items() if not 0 <= place < count]
    if split.batch < 1:
        wrong.append(f"a batch of {split.batch}")
    wrong += _misshapen(split)
    if wrong:
        return wrong
    if isinstance(split.plan, Plan):
        return faults(split.graph, split.topology, split.plan)
    return pipeline_faults(split.graph, split.topology, split.plan)


def _misshapen(split: Split) -> list[str]:
    """Lists of a wrong length and numbers of what does not exist, which the checker takes as given."""
    ops, devices, plan = len(split.graph.ops), len(split.topology.devices), split.plan
    lengths: dict[str, tuple[Sized, int]] = {
        "device_of": (plan.device_of, ops),
        "peaks": (plan.peaks, devices),
    }
    if isinstance(plan, Plan):
        lengths |= {"start": (plan.start, ops), "end": (plan.end, ops), "order": (plan.order, devices)}
        numbers = [(op, ops) for row in plan.order for op in row]
        numbers += [(one.producer, ops) for one in plan.transfers]
        numbers += [(one.target, devices) for one in plan.transfers]
    else:
        lengths["loads"] = (plan.loads, devices)
        numbers = []
    wrong = [
        f"{name} has {len(given)} entries for {count}"
        for name, (given, count) in lengths.items()
        if len(given) != count
    ]
    return wrong + [f"{one} is the number of nothing" for one, count in numbers if not 0 <= one < count]
