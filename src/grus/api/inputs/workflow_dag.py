"""Stage dependencies among the jobs of one submission: their errors, and an order that respects them.

Pure. Works on the input as written; ids come later.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from grus.api.inputs import workflow_stages
from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.workflow_stages import JobDocument, split_reference
from grus.api.parsing.validation_errors import Place
from grus.api.wire_types.job import EtaOut, PlanOut
from grus.model.errors import Mistake
from grus.model.identifiers import NAME, looks_like_job_id


@dataclass(frozen=True, slots=True)
class _Link:
    """Reference of a job to another, and its place."""

    place: Place
    whose: str
    output: str
    """Name of the output; empty if it only depends on the other job."""
    written: str


@dataclass(frozen=True, slots=True)
class Read:
    """Job of a file, with its position; `job` is None if the job itself has errors.

    A stage with errors still has its name, names others and declares outputs: the stages that depend on it
    are not wrong too, and errors between them are reported at once.
    """

    part: JobDocument
    job: JobIn | None

    @property
    def name(self) -> str:
        if self.job is not None:
            return self.job.name or ""
        name = self.part.stage or self.part.value.get("name")
        return name if isinstance(name, str) else ""

    @property
    def links(self) -> list[_Link]:
        if self.job is not None:
            return list(_links(self.job.after, self.job.inputs))
        after, inputs = self.part.value.get("after"), self.part.value.get("inputs")
        return list(
            _links(
                after if isinstance(after, list) else (),
                inputs if isinstance(inputs, Mapping) else {},
            )
        )

    @property
    def outputs(self) -> Mapping[str, str] | None:
        """Return the declared outputs; None if unknown."""
        if self.job is not None:
            return self.job.outputs
        try:
            return workflow_stages.outputs(self.part.value.get("outputs", {}))
        except ValueError:
            return None


def names_of(job: JobIn) -> list[str]:
    """Return the jobs that it names in `after` and in `inputs`: stages of its submission, and ids."""
    return list(dict.fromkeys(link.whose for link in _links(job.after, job.inputs)))


def _links(after: Sequence[object], inputs: Mapping[str, object]) -> Iterator[_Link]:
    for position, name in enumerate(after):
        if isinstance(name, str) and NAME.fullmatch(name):
            yield _Link(("after", position), name, "", name)
    for name, reference in inputs.items():
        whose, output = split_reference(reference) if isinstance(reference, str) else ("", "")
        if NAME.fullmatch(whose) and NAME.fullmatch(output):
            yield _Link(("inputs", name), whose, output, str(reference))


def mistakes(read: Sequence[Read]) -> list[Mistake]:
    """Return errors: duplicate names, unknown names, outputs that no stage declares, and cycles."""
    found = []
    names = [one.name for one in read]
    by_name = dict(zip(reversed(names), reversed(read), strict=True))
    for index, one in enumerate(read):
        named = one.part.stage or "name" in one.part.value
        if one.job is not None and named and one.name in names[:index]:
            found.append(_twice(read, names.index(one.name), one))
        for link in one.links:
            if problem := _problem(link, names, index, one, by_name):
                found.append(_mistake(one, link.place, problem, link.written))
    return found + _circles(read)


def _twice(read: Sequence[Read], first: int, again: Read) -> Mistake:
    line = read[first].part.line_of(_naming(read[first]))
    rule = f"is the name of another stage of this file (line {line}): choose another"
    return _mistake(again, _naming(again), rule, again.name)


def _naming(one: Read) -> Place:
    """Return the place of its name: under `stages` it is the key itself."""
    return () if one.part.stage else ("name",)


def _mistake(one: Read, place: Place, rule: str, value: str) -> Mistake:
    return Mistake(one.part.field(place), rule, value, one.part.line_of(place))


def _problem(link: _Link, names: Sequence[str], index: int, one: Read, by_name: Mapping[str, Read]) -> str:
    if link.whose == names[index]:
        return "names the job itself"
    if link.whose in names:
        if not one.part.stage and link.whose not in names[:index]:
            return "names a later stage: stages stand in the order in which they may start"
        return _output_problem(link, by_name[link.whose].outputs)
    if looks_like_job_id(link.whose):
        return ""
    if not one.part.stage:
        return "names no earlier stage of this file, and is not the id of a job"
    close = get_close_matches(link.whose, [name for name in names if name], n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"names no stage of this file, and is not the id of a job{meant}"


def _output_problem(link: _Link, left: Mapping[str, str] | None) -> str:
    if not link.output or left is None or link.output in left:
        return ""
    leaves = f"it leaves {', '.join(left)}" if left else f"it has none; give it outputs: [{link.output}]"
    return f"stage {link.whose} has no output {link.output}: {leaves}"


def _circles(read: Sequence[Read]) -> list[Mistake]:
    """Return an error for each set of stages that wait for each other, at the first of them."""
    jobs = {one.name: one for one in read if one.part.stage}
    left = {name: {link.whose for link in one.links} & jobs.keys() - {name} for name, one in jobs.items()}
    found = []
    while circle := _circle(left):
        first = min(circle, key=list(left).index)
        at = circle.index(first)
        circle = [*circle[at:], *circle[:at]]
        link = next(link for link in jobs[first].links if link.whose == circle[1])
        way = " → ".join([*circle, first])
        rule = f"goes round in a circle, so that none can start: {way} (each comes after the next)"
        found.append(_mistake(jobs[first], link.place, rule, link.written))
        left = {name: before - set(circle) for name, before in left.items() if name not in circle}
    return found


def _circle(before: Mapping[str, set[str]]) -> list[str]:
    """Return a cycle of stages, each depending on the next one; empty if there is none."""
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return list(reversed(error.args[1][1:]))
    return []


def with_ids(job: JobIn, ids: Mapping[str, str]) -> JobIn:
    """Return the job with the ids of those jobs of its submission that it names."""
    inputs = {}
    for name, reference in job.inputs.items():
        whose, output = split_reference(reference)
        inputs[name] = f"{ids.get(whose, whose)}.{output}"
    update = {"after": tuple(ids.get(name, name) for name in job.after), "inputs": inputs}
    return job.model_copy(update={key: value for key, value in update.items() if value})


def alone(job: JobIn, names: Collection[str]) -> JobIn:
    """Return the job without references to these names, as if they had ended: its own requirements."""
    inputs = {key: one for key, one in job.inputs.items() if split_reference(one)[0] not in names}
    after = [name for name in job.after if name not in names]
    return job.model_copy(update={"after": after, "inputs": inputs})


def behind(plan: PlanOut, job: JobIn, names: Collection[str]) -> PlanOut:
    """Return the plan of a stage that was planned `alone`: it starts after those of `names` that it names."""
    before = ", ".join(name for name in names_of(job) if name in names)
    if not before:
        return plan
    waits = f"starts after {before}"
    eta = None if plan.eta is None else EtaOut(at=plan.eta.at, unknown=f"it {waits}")
    later = "later" if plan.starts == "now" else plan.starts
    nothing: dict[str, object] = {"nodes": (), "seats": (), "affected": (), "change": ""}
    said = {"starts": later, "sentence": f"{waits}; by itself: {plan.sentence}", "eta": eta}
    return plan.model_copy(update=nothing | said)


def order(jobs: Sequence[JobIn]) -> list[int]:
    """Return their positions in dependency order; in written order if there is a choice."""
    place = {job.name: index for index, job in enumerate(jobs)}
    before = [{place[name] for name in names_of(job) if name in place} for job in jobs]
    after: list[list[int]] = [[] for _ in jobs]
    for index, others in enumerate(before):
        for other in others:
            after[other].append(index)
    waiting = [len(others) for others in before]
    ready = [index for index, count in enumerate(waiting) if not count]
    found = []
    while ready:
        index = heapq.heappop(ready)
        found.append(index)
        for later in after[index]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, later)
    return found
