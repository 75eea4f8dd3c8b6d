"""Small builders: records, runs and comparisons as they would be read from a folder."""

from grus.compare.environments import Ending, EndingKind, Environment, EnvironmentKind
from grus.compare.records import (
    Contents,
    Finish,
    Node,
    ResourceSample,
    RunRecord,
    StageStart,
    WorkloadReport,
)
from grus.compare.result_directory import Comparison, ComparisonRun, Description, Side, Visit, run_name


def a_record(
    *,
    steps: int = 10,
    step_seconds: float = 0.5,
    batch: float = 32,
    cpu: float = 1.0,
    others: float = 0.0,
    load: int = 0,
    load_cpu: float = 0.0,
    code: str = "c0de",
    data: str = "da7a",
    precision: str = "fp32",
    gpus: tuple[int, ...] = (),
    node: Node | None = None,
) -> RunRecord:
    """A run that begins at 1 s, reports step 0 at 2 s, and ends 1 s after its last step."""
    last = 2 + steps * step_seconds
    told = [
        WorkloadReport(
            t=2 + n * step_seconds, figures={"step": n, "batch": batch}, words={"precision": precision}
        )
        for n in range(steps + 1)
    ]
    samples = [
        ResourceSample(
            t=t, cpu=cpu, memory=1e9, load_cpu=load_cpu, own_cpu=0.0, node_cpu=cpu + load_cpu + others
        )
        for t in (2.0, last, last + 1)
    ]
    return RunRecord(
        at=1000.0,
        name="x",
        period=1.0,
        load=load,
        argv=("python3", "train.py"),
        node=node or Node(host="n1", cores=8, allowed=8, cpu_model="Some CPU"),
        code=Contents(path="code", digest=code),
        data=(Contents(path="./images", digest=data),),
        given=gpus,
        samples=tuple(samples),
        told=tuple(told),
        stages=(
            StageStart(t=0.0, name="setup"),
            StageStart(t=1.0, name="run"),
            StageStart(t=2.0, name="train"),
        ),
        finish=Finish(t=last + 1, code=0, cpu_seconds=cpu * last),
    )


def a_run(
    label: str, repeat: int, record: RunRecord | None, *, loaded: bool = False, **ending: float
) -> ComparisonRun:
    return ComparisonRun(
        name=run_name(label, repeat, loaded=loaded),
        repeat=repeat,
        loaded=loaded,
        submitted_at=990.0,
        ending=Ending(end=EndingKind.ENDED, **ending),  # type: ignore[arg-type]  # queued and startup, both numbers
        record=record,
    )


def a_side(label: str, *runs: ComparisonRun, visit: Visit | None = None) -> Side:
    return Side(environment=Environment(EnvironmentKind.LOCAL, "", label), visit=visit or Visit(), runs=runs)


def a_comparison(*sides: Side, repeats: int = 1, with_load: bool = False) -> Comparison:
    return Comparison(
        description=Description(
            workload="biggan",
            argv=("python3", "train.py"),
            gpus=0,
            job="{}",
            code="c0de",
            environments=tuple(side.environment for side in sides),
            repeats=repeats,
            with_load=with_load,
            period=1.0,
            began_at=900.0,
        ),
        sides=sides,
    )
