"""Simulations on all cores, with a progress bar."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grus.simulator.whatif_scenarios import Scenario, Simulated

SMALL = 4000
"""Jobs in all simulations together up to which starting more processes costs more than it gives."""


def run_all(scenarios: "Sequence[Scenario]", cores: int) -> "list[Simulated]":
    """All of them, in their order; `cores` processes, 0 for one a core. The figures are the same."""
    jobs = sum(len(scenario.works) for scenario in scenarios)
    with _progress_bar(jobs) as advance:
        if len(scenarios) == 1 or cores == 1 or jobs <= SMALL:
            return _here(scenarios, advance)
        return _on_cores(scenarios, cores, advance)


def _here(scenarios: "Sequence[Scenario]", advance: Callable[[int], None]) -> "list[Simulated]":
    from grus.simulator.whatif_scenarios import run

    outcomes, before = [], 0
    for scenario in scenarios:
        base = before
        outcomes.append(run(scenario, lambda done, _, base=base: advance(base + done)))  # type: ignore[misc]  # the default binds the loop's value; mypy sees one parameter too many
        before += len(scenario.works)
    return outcomes


def _on_cores(
    scenarios: "Sequence[Scenario]", cores: int, advance: Callable[[int], None]
) -> "list[Simulated]":
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from grus.simulator.whatif_scenarios import run

    outcomes, done = [], 0
    # Spawned, not forked: the progress bar has a thread.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores or None, mp_context=context) as pool:
        for scenario, outcome in zip(scenarios, pool.map(run, scenarios), strict=True):
            outcomes.append(outcome)
            done += len(scenario.works)
            advance(done)
    return outcomes


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal's stderr; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda done: bar.update(task, completed=done)
