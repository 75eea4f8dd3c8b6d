"""`grus split --or-wait`: split now, wait for a whole GPU, or take less memory?

The ways and what they cost come from the user's training, worked out in a child process; when each would
start and end comes from the scheduler: simulated on a pool that is described, asked of a server that runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grus.cli.render.output import Format, emit, hint, moment, say, size, span, table
from grus.cli.render.progress import told
from grus.model.errors import BadInput, DoesNotFit, Mistake

if TYPE_CHECKING:
    from grus.estimation.estimate_subprocess import Limits
    from grus.model.nodes import Node
    from grus.sdk.client import Client
    from grus.simulator.alternatives import Advice, Alternative, Future
    from grus.simulator.whatif_scenarios import Scenario

CHILD = "grus.partition.options:find"
MOST = 4
"""GPUs that a training is split over, for an answer within minutes."""
AFTER = 1.0
"""Seconds after the last job of the file that the one in question comes."""


def on_described(
    target: str, batch: int | None, seconds: float, nodes: str, jobs: str, limits: "Limits", output: Format
) -> None:
    """The pool that `--nodes` names, with the jobs of a file that run, wait or come on it."""
    from grus.simulator.alternatives import ProposedJob, advise

    scene = _scene(nodes, jobs)
    found = _find(target, batch, scene.nodes, limits)
    now = max((work.submit for work in scene.works), default=0.0) + AFTER
    ways = alternatives(found["options"])
    with told() as tell:
        advice = advise(scene, ProposedJob(submit=now, seconds=seconds), ways, progress=_tenths(tell))
    _emit(found, ways, advice, output)


def on_server(
    client: "Client", target: str, batch: int | None, seconds: float, limits: "Limits", output: Format
) -> None:
    """Decide for the pool of the server: each execution plan is requested as `grus submit --plan` does."""
    from grus.cli.whatif.scenario_inputs import server_pool
    from grus.simulator.alternatives import decide

    nodes, _ = server_pool()
    found = _find(target, batch, nodes, limits)
    ways = alternatives(found["options"])
    _emit(found, ways, decide([_planned(client, way, seconds) for way in ways]), output)


def _tenths(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a callback that reports every tenth of the simulations."""
    told_of = -1

    def progress(done: int, whole: int) -> None:
        nonlocal told_of
        if done * 10 // whole > told_of:
            told_of = done * 10 // whole
            tell(f"simulating the pool, {10 * told_of} %")

    return progress


def _scene(nodes: str, jobs: str) -> "Scenario":
    from grus.cli.whatif.scenario_inputs import Gathering, WorkloadSource, present
    from grus.model.identifiers import QueueName
    from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
    from grus.simulator.cluster_spec import count_gpus, parse_nodes
    from grus.simulator.whatif_scenarios import PRESENT, Scenario, ScenarioChange

    if not jobs:
        pool = parse_nodes(nodes)
        whole = (Queue(name=DEFAULT_QUEUE, quota=Quota.of(count_gpus(pool))),)
        return Scenario(PRESENT, pool, whole, ())
    gathering = Gathering()
    source = WorkloadSource(
        trace=jobs, synthetic=None, history=False, nodes=nodes, queues="", applications="", seed=0
    )
    found = present(source, ScenarioChange(), gathering)
    gathering.refuse()
    assert found is not None
    made = found.scenario
    if any(queue.name == DEFAULT_QUEUE for queue in made.queues):
        return made
    return replace(made, queues=(*made.queues, Queue(name=QueueName(DEFAULT_QUEUE), quota=Quota.of(0))))


def _find(target: str, batch: int | None, nodes: "Sequence[Node]", limits: "Limits") -> dict[str, Any]:
    from grus.estimation.estimate_subprocess import run

    arguments = {"target": target, "batch": batch, "pool": types(nodes)}
    with told() as tell:
        found = run(CHILD, arguments, what=target, folder=Path.cwd(), limits=limits, tell=tell)
    for note in found["notes"]:
        hint(f"no split: {note}")
    if not found["options"]:
        raise DoesNotFit(
            f"No way to run {target} was found on the GPUs of this pool: it fits none of them, nor several. "
            "What may do: a smaller --batch, or larger GPUs."
        )
    return found  # type: ignore[no-any-return]  # JSON


def types(nodes: "Sequence[Node]") -> list[dict[str, Any]]:
    """The types of a pool, the largest memory first, and how many of each a node has at most."""
    from grus.estimation.gpus import known, sized

    most: dict[tuple[int, str], int] = {}
    for node in nodes:
        here: dict[tuple[int, str], int] = {}
        for device in node.devices:
            key = (device.memory, device.type)
            here[key] = here.get(key, 0) + 1
        for key, count in here.items():
            most[key] = max(most.get(key, 0), count)
    return [
        {
            "gpu": asdict(replace(known(name) or sized(memory), name=name, memory=memory)),
            "most": min(count, MOST),
        }
        for (memory, name), count in sorted(most.items(), reverse=True)
    ]


def alternatives(options: Sequence[dict[str, Any]]) -> "list[Alternative]":
    """One for each way; whole GPUs of several types are one. The fastest single GPU has speed 1."""
    from grus.simulator.alternatives import Alternative

    alone = [one for one in options if one["gpus"] == 1]
    base = min(one["seconds"] for one in (alone or options))
    wholes = [one for one in options if one["how"] == "whole"]
    made = []
    if wholes:
        speeds = tuple((one["type"], base / one["seconds"]) for one in wholes)
        made.append(Alternative("a whole GPU", 1, max(one["memory"] for one in wholes), speeds))
    for one in options:
        if one["how"] != "whole":
            name = f"{one['how']} over {one['gpus']}" if one["gpus"] > 1 else one["how"]
            speeds = ((one["type"], base / one["seconds"]),)
            made.append(
                Alternative(f"{name} {one['type']}", one["gpus"], one["memory"], speeds, note=one["note"])
            )
    return made


def _planned(client: "Client", way: "Alternative", seconds: float) -> "Future":
    """Return the server's forecast for a job with this request."""
    from datetime import UTC, datetime

    from grus.api.inputs.job_schema import JobIn
    from grus.api.parsing.validation_errors import read
    from grus.simulator.alternatives import Future

    asked = {
        "name": "split-or-wait",
        "run": "true",
        "resources": {"gpu": f"{'|'.join(way.types)}:{way.gpus}"},
        "launch": "per-gpu",
    }
    plan = client.plan(read(JobIn, asked))
    if not plan.fits:
        return Future(name=way.name, note=way.note, impossible=plan.sentence)
    speed = min(speed for _, speed in way.speeds)
    now, eta = datetime.now(UTC), plan.eta
    first, last = (moment(eta.start_p50), moment(eta.start_p90)) if eta is not None else (None, None)

    def after(at: datetime | None) -> float:
        if plan.starts == "now":
            return 0.0
        return float("inf") if at is None else max(0.0, (at - now).total_seconds())

    return Future(
        name=way.name,
        note=way.note if eta is None or not eta.unknown else eta.unknown,
        start=after(first),
        end=after(first) + seconds / speed,
        end_late=after(last) + seconds / speed,
        gpu_hours=way.gpus * seconds / speed / 3600,
    )


def _emit(found: dict[str, Any], ways: "Sequence[Alternative]", advice: "Advice", output: Format) -> None:
    if advice.best is None:
        raise DoesNotFit(advice.sentence)
    value = {"batch": found["batch"], "options": found["options"], **advice.as_json()}
    emit(value, output, lambda: _show(ways, advice))


def _show(ways: "Sequence[Alternative]", advice: "Advice") -> None:
    memory = {way.name: size(way.memory) for way in ways}
    rows: list[tuple[str, ...]] = []
    for one in advice.futures:
        if one.impossible:
            rows.append((one.name, memory[one.name], "never", "", "", "", "", one.impossible))
            continue
        others = "" if one.others is None else span(one.others) if one.others >= 1 else "not at all"
        times = (_ahead(one.start), _ahead(one.end), _ahead(one.end_late))
        rows.append((one.name, memory[one.name], *times, f"{one.gpu_hours:.1f}", others, one.note))
    table(("WAY", "MEMORY", "STARTS", "ENDS (P50)", "ENDS (P90)", "GPU-HOURS", "DELAYS OTHERS", "NOTE"), rows)
    say(f"\n{advice.sentence}")


def _ahead(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    return "now" if seconds < 1 else f"in {span(seconds)}"


def asked_seconds(hours: float | None) -> float:
    """Return the training's duration alone in seconds; needed to compare."""
    if hours is None or not 0 < hours <= 10_000:
        rule = "must say how many hours the training takes on a whole GPU, such as --hours 6"
        raise BadInput([Mistake("hours", rule, "" if hours is None else f"{hours:g}")])
    return hours * 3600
