"""Reports of a simulated job to the scheduler, in the form of a live job's reports.

A job that reports is known at the sizes that it has run and at the next larger ones; the accuracy of the
prediction for the latter is not simulated. Its remaining work is known from its progress.
"""

from grus.scheduler.elasticity.size_values import within_reach
from grus.scheduler.elasticity.throughput_outlook import FIRST_SIZE, Outlook
from grus.simulator.events.job_progress import SimulatedRun


def outlook(run: SimulatedRun, stall: float, boot: float) -> Outlook:
    """Return the outlook of a job at this moment; its work must have been counted up to now."""
    work = run.work
    if work.size is None:
        sizes: tuple[int, ...] = ()
    else:
        first = max(FIRST_SIZE, work.size.low)
        sizes = within_reach(range(work.size.low, work.size.high + 1), run.most_run, first)
    alone = work.rate(1)
    return Outlook(
        sizes=sizes,
        speeds=tuple(work.rate(size) / alone for size in sizes),
        left=max(0.0, work.duration - run.done) / alone,
        stall=stall,
        boot=boot,
        attained=run.held,
        types=work.types if work.reports else (),
    )
