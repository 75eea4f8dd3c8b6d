"""Execution of a comparison: the same runs in every environment, in turns, as far as each environment
permits.

1. Fix the subject: the code is copied once, and travels from that copy.
2. Visit every environment: prepare, preflight. One that fails is blocked; the others continue.
3. Run in turns, each round starting with another environment: drift (a filling disk, a warm room, the working
   hours of people) then affects all of them alike.
4. After the first round look for confounds; grave ones end it, because more of the same would prove nothing.
5. Clean up, always.

Everything is written at once to the places that `result` defines. A second call continues with the missing
runs.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from grus.compare import confounds, result_directory, sampler
from grus.compare.environments import (
    CODE,
    SAMPLER,
    USUAL_PERIOD,
    Driver,
    DriverFailed,
    DriverStep,
    Ending,
    EndingKind,
    Environment,
    Order,
    PreflightStatus,
    Started,
    Tell,
)
from grus.compare.result_directory import Blocked, ComparisonRun, Description, Visit, run_name
from grus.compare.workload import Workload
from grus.controlplane.admission import code_snapshot
from grus.model.errors import BadInput, Conflict, Mistake

LARGEST = 1 << 30
"""Bytes of code that travel."""
DAY = 86400.0

Of = Callable[[Environment], Driver]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    repeats: int = 5
    with_load: bool = False
    period: float = USUAL_PERIOD
    anyway: bool = False
    """Continue although the work itself was not the same."""
    patience: float = DAY
    """Seconds to wait for one run, its time in a queue included."""
    html: Path | None = None
    """Path of the HTML page: if it lies among the code, it does not count as code."""


def run(
    workload: Workload,
    environments: Sequence[Environment],
    options: Options,
    folder: Path,
    *,
    of: Of,
    tell: Tell,
    clock: Callable[[], float] = time.time,
) -> result_directory.Comparison:
    """Make all runs that are missing in the folder. Raises Conflict for grave confounds and other work."""
    folder = folder.absolute()
    description = _fixed(workload, environments, options, folder, clock)
    wanted = _lacking(folder)
    drivers = [of(environment) for environment in environments if environment.label in wanted]
    try:
        open_ones = [driver for driver in drivers if _visited(driver, workload, folder, tell)]
        for repeat in range(1, description.repeats + 1):
            for driver, order in _round(open_ones, workload, description, repeat):
                if _blocked(folder, driver) is None:
                    _make(driver, order, repeat, options, folder, tell)
            if repeat == description.repeats or _is_power_of_two(repeat):
                _check_confounds(folder, options)
    finally:
        for driver in drivers:
            _clean_up(driver, folder, tell)
    return result_directory.read(folder)


# ------------------------------------------------------------------------------------------ what is compared


def _fixed(
    workload: Workload,
    environments: Sequence[Environment],
    options: Options,
    folder: Path,
    clock: Callable[[], float],
) -> Description:
    """The description, and the bundle beside it: written now, or the same as before."""
    results = _Results(workload.folder, options.html)
    digest, names = code_snapshot.fingerprint(workload.folder, LARGEST, left_out=results.has)
    description = Description(
        workload=workload.name,
        argv=workload.argv,
        gpus=workload.gpus,
        job=workload.job.model_dump_json(exclude_unset=True),
        code=digest,
        environments=tuple(environments),
        repeats=options.repeats,
        with_load=options.with_load,
        period=options.period,
        began_at=clock(),
    )
    if result_directory.is_one(folder):
        return _same(result_directory.read_description(folder), description, folder)
    try:
        _require_free(folder)
        with ExitStack() as undo:  # half a bundle would be in the way of the next attempt
            bundle = folder / result_directory.BUNDLE
            undo.callback(shutil.rmtree, bundle, ignore_errors=True)
            code_snapshot.copy(workload.folder, names, bundle / CODE)
            shutil.copy2(sampler.__file__, bundle / SAMPLER)
            result_directory.write_description(folder, description)
            undo.pop_all()
    except OSError as error:
        raise BadInput([Mistake("out", f"cannot be written: {error.strerror}", str(folder))]) from None
    return description


def _require_free(folder: Path) -> None:
    """Refuse a folder with other content, which would be mixed or confused with the results."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        rule = "must be a new or an empty folder, or one that `grus compare run` wrote"
        raise BadInput([Mistake("out", rule, str(folder))])


class _Results:
    """Results of comparisons in the code's own folder.

    They do not count as code: otherwise no comparison could be resumed.
    """

    def __init__(self, code: Path, html: Path | None) -> None:
        self._code = code
        self._html = None if html is None else html.absolute()
        self._known: dict[Path, bool] = {}

    def has(self, path: Path) -> bool:
        return path == self._html or self._within(path.parent)

    def _within(self, folder: Path) -> bool:
        if folder == self._code:
            return False
        if folder not in self._known:
            self._known[folder] = result_directory.is_one(folder) or self._within(folder.parent)
        return self._known[folder]


def _same(before: Description, now: Description, folder: Path) -> Description:
    """Check that the request is the same; only the number of repeats may grow."""
    wanted = replace(now, began_at=before.began_at)
    differs = [
        name
        for name in ("job", "code", "environments", "with_load", "period")
        if getattr(before, name) != getattr(wanted, name)
    ]
    if differs:
        raise Conflict(
            f"{folder} holds a comparison with another {' and '.join(differs)}; "
            "give another --out, or undo the change to go on with it"
        )
    wanted = replace(wanted, repeats=max(before.repeats, now.repeats))
    if wanted != before:
        result_directory.write_description(folder, wanted)
    return wanted


def _lacking(folder: Path) -> set[str]:
    """Labels of the environments that have runs to be made: the others are left alone."""
    found = result_directory.read(folder)
    missing = frozenset(result_directory.missing(found))
    loads = (False, True) if found.description.with_load else (False,)
    return {
        side.label
        for side in found.sides
        for repeat in range(1, found.description.repeats + 1)
        for loaded in loads
        if run_name(side.label, repeat, loaded=loaded) in missing
    }


def _is_power_of_two(number: int) -> bool:
    """Every look reads all records: of many repeats not every one is followed by one."""
    return number & (number - 1) == 0


def _check_confounds(folder: Path, options: Options) -> None:
    found = confounds.grave(result_directory.read(folder))
    if found and not options.anyway:
        raise Conflict(
            "the sides do not do the same work, so their figures cannot be compared: "
            + "; ".join(str(one) for one in found)
            + ". --anyway goes on all the same, and the report says so"
        )


# --------------------------------------------------------------------------------------------- environments


def _visited(driver: Driver, workload: Workload, folder: Path, tell: Tell) -> bool:
    """Return whether the environment can run; the findings are written either way."""
    label, step, visit = driver.environment.label, DriverStep.PREPARE, Visit()
    try:
        tell(f"{label}: preparing")
        visit = Visit(manual=driver.prepare(workload, folder / result_directory.BUNDLE))
        step = DriverStep.PREFLIGHT
        tell(f"{label}: preflight")
        visit = replace(visit, checks=driver.preflight(workload))
        failed = [one for one in visit.checks if one.verdict is PreflightStatus.FAILED]
        if failed:
            why = "; ".join(f"{one.name}: {one.found}. {one.fix}" for one in failed)
            visit = replace(visit, blocked=Blocked(step=step, why=why))
    except DriverFailed as error:
        visit = replace(visit, blocked=Blocked(step=step, why=str(error)))
    if visit.blocked is not None:
        tell(f"{label}: blocked at {visit.blocked.step}: {visit.blocked.why}")
    result_directory.write_visit(folder, label, visit)
    return visit.blocked is None


def _blocked(folder: Path, driver: Driver) -> Blocked | None:
    return result_directory.read_visit(folder, driver.environment.label).blocked


def _block(folder: Path, driver: Driver, step: DriverStep, why: str, tell: Tell) -> None:
    label = driver.environment.label
    tell(f"{label}: blocked at {step}: {why}")
    visit = result_directory.read_visit(folder, label)
    result_directory.write_visit(folder, label, replace(visit, blocked=Blocked(step=step, why=why)))


def _clean_up(driver: Driver, folder: Path, tell: Tell) -> None:
    """Clean up; a failure is reported and does not hide the measurements."""
    try:
        driver.clean_up()
    except DriverFailed as error:
        if _blocked(folder, driver) is None:
            _block(folder, driver, DriverStep.CLEAN_UP, str(error), tell)


# ----------------------------------------------------------------------------------------------------- runs


def _round(
    drivers: Sequence[Driver], workload: Workload, description: Description, repeat: int
) -> Iterator[tuple[Driver, Order]]:
    """The runs of one repeat; the first environment of one is the last of the next."""
    turn = (repeat - 1) % max(1, len(drivers))
    for loaded in (False, True) if description.with_load else (False,):
        for driver in [*drivers[turn:], *drivers[:turn]]:
            yield (
                driver,
                Order(
                    name=run_name(driver.environment.label, repeat, loaded=loaded),
                    argv=workload.argv,
                    setup=workload.setup,
                    env=workload.env,
                    data=workload.data,
                    period=description.period,
                    load=-1 if loaded else 0,
                    limit=workload.limit,
                ),
            )


def _make(driver: Driver, order: Order, repeat: int, options: Options, folder: Path, tell: Tell) -> None:
    """One run, unless it is there; a step that fails blocks its environment."""
    before = result_directory.read_run(folder, order.name)
    if before is not None and before.sound:
        return
    step = DriverStep.START
    try:
        tell(f"{order.name}: starting")
        started = driver.start(order)
        step = DriverStep.WAIT
        ending = driver.wait(started, options.patience, lambda line: tell(f"{order.name}: {line}"))
        step = DriverStep.COLLECT
        collected = driver.collect(started)
    except DriverFailed as error:
        _block(folder, driver, step, str(error), tell)
        return
    made = _run(started, repeat, ending)
    result_directory.write_run(folder, made, collected)
    kept = result_directory.read_run(folder, order.name)
    assert kept is not None
    if kept.sound:
        tell(f"{order.name}: done")
        return
    step = {EndingKind.ENDED: DriverStep.RUN, EndingKind.NEVER_STARTED: DriverStep.START}.get(
        ending.end, DriverStep.WAIT
    )
    last = collected.output.strip().rpartition("\n")[2][-200:]
    _block(folder, driver, step, f"{order.name}: {kept.problem}" + (f" ({last})" if last else ""), tell)


def _run(started: Started, repeat: int, ending: Ending) -> ComparisonRun:
    return ComparisonRun(
        name=started.order.name,
        repeat=repeat,
        loaded=started.order.load != 0,
        submitted_at=started.submitted_at,
        ending=ending,
        record=None,
    )
