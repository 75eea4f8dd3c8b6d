"""Rates from a worker's counters between two looks: cores, bytes per second. Pure."""

from grus.model.interfaces import Usage
from grus.telemetry.samples import Measure


def rates(before: Usage | None, now: Usage) -> dict[Measure, float]:
    """Return the rates of the worker's own processes since `before`; unknown ones are absent.

    Network bytes may be counted less often than the rest: between two counts they are absent, not 0.
    """
    found = {Measure.HOST_MEMORY: float(now.memory)}
    if before is None:
        return found
    told = {
        Measure.CPU: rate(before.cpu_seconds, now.cpu_seconds, now.at - before.at),
        Measure.DISK_READ: rate(before.disk_read, now.disk_read, now.at - before.at),
        Measure.DISK_WRITE: rate(before.disk_write, now.disk_write, now.at - before.at),
    }
    if before.network_at is not None and now.network_at is not None:
        seconds = now.network_at - before.network_at
        told[Measure.NETWORK_IN] = rate(before.network_in, now.network_in, seconds)
        told[Measure.NETWORK_OUT] = rate(before.network_out, now.network_out, seconds)
    return found | {measure: value for measure, value in told.items() if value is not None}


def rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """Return the growth per second of a counter; None if either end is unknown, no time passed, or it was
    reset.
    """
    if before is None or now is None or seconds <= 0 or now < before:
        return None
    return (now - before) / seconds
