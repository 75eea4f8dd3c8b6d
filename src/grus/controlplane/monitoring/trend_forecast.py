"""Forecasts of the load of a GPU, job, queue or the pool for the next hour or day, from its recorded history.

Only whole steps of the past are used, so a forecast holds until the next step is over; until then the same
question gets the same answer. Forecasts are computed one at a time, so that requests do not take over the
machine.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from grus.controlplane.eta.forecast_service import Forecaster
from grus.controlplane.monitoring.series_query import Readings, Whose
from grus.controlplane.monitoring.telemetry_collector import Watching
from grus.controlplane.visibility import JobVisibility
from grus.model.activity_labels import Tag
from grus.model.errors import BadInput, Conflict, Mistake, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import User
from grus.model.nodes import Node
from grus.patterns.demand_forecast import DAY, WEEK, Forecast, Nothing, forecast
from grus.telemetry.samples import Measure
from grus.telemetry.tsdb import Series

HOUR = 3600.0
REMEMBERED = 256
"""Forecasts that are kept; the oldest goes."""
AT_MOST_ONE = frozenset({Measure.UTILISATION, Measure.ACTIVE, Measure.MEMORY_TIME})
"""Measures that are parts of a whole."""


class Reach(StrEnum):
    """Horizon of a forecast."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class ForecastResolution:
    """Resolution of a forecast, and the length of the history used for it. Seconds."""

    ahead: float
    step: float
    back: float
    seasons: tuple[float, ...]


SCALES = {
    Reach.HOUR: ForecastResolution(HOUR, 300.0, WEEK, (DAY,)),
    Reach.DAY: ForecastResolution(DAY, HOUR, 8 * WEEK, (DAY, WEEK)),
}
MEASURES = {
    Whose.POOL: Measure.DEMAND,
    Whose.QUEUE: Measure.DEMAND,
    Whose.GPU: Measure.UTILISATION,
    Whose.JOB: Measure.UTILISATION,
    Whose.WORKER: Measure.UTILISATION,
    Whose.NODE: Measure.CPU,
}
"""Default measure of the forecast for each kind of subject."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """Forecast of a subject; or the reason why there is none."""

    whose: Whose
    name: str
    measure: Measure
    reach: Reach
    found: Forecast | Nothing
    ends: float | None = None
    """Expected end of a job."""


class Prospects:
    """One a server, for any thread."""

    def __init__(
        self,
        readings: Readings,
        watching: Watching,
        visible: JobVisibility,
        forecaster: Forecaster | None,
        nodes: Callable[[], tuple[Node, ...]],
        clock: Callable[[], float],
    ) -> None:
        self._readings = readings
        self._watching = watching
        self._visible = visible
        self._forecaster = forecaster
        self._nodes = nodes
        self._clock = clock
        self._working = threading.Lock()
        self._known: OrderedDict[tuple[object, ...], Forecast | Nothing] = OrderedDict()

    def of(
        self,
        user: User,
        whose: Whose,
        name: str,
        reach: Reach,
        measure: Measure | None = None,
    ) -> Prospect:
        """Return the forecast for the next hour or day of a GPU, a job, a queue or the pool. Raises NotFound
        for a subject that does not exist, or not for this user.
        """
        if whose is not Whose.JOB:
            return self._of(user, whose, name, reach, measure)
        job = self._visible.get(user, JobId(name))
        if job.terminal:
            raise Conflict(f"job {name} has ended; there is nothing to foretell")
        foreseen = None if self._forecaster is None else self._forecaster.of(job.id)
        found = self._of(user, whose, name, reach, measure)
        return found if foreseen is None else replace(found, ends=foreseen.end_p50)

    def _of(self, user: User, whose: Whose, name: str, reach: Reach, measure: Measure | None) -> Prospect:
        scale, what = SCALES[reach], measure or MEASURES[whose]
        now = self._clock()
        until = now // scale.step * scale.step
        self._require(whose, name)
        if not self._readings.recorded(user, whose, name):
            if whose in (Whose.NODE, Whose.WORKER):
                raise NotFound(f"nothing is recorded of {whose.value} {name}")
            return Prospect(whose, name, what, reach, Nothing("nothing was measured of it so far"))
        past = self._readings.series(user, whose, name, what, back=scale.back, until=until, step=scale.step)
        seasons = (*_rhythm(self._tag(whose, name, now), scale.step), *scale.seasons)
        return Prospect(whose, name, what, reach, self._worked_out(past, scale, seasons, (whose, name, what)))

    def _require(self, whose: Whose, name: str) -> None:
        if whose is not Whose.POOL and not name:
            raise BadInput([Mistake("name", f"must say which {whose.value}", "nothing")])
        devices = {device.id for node in self._nodes() for device in node.devices}
        if whose is Whose.GPU and name.partition("#")[0] not in devices:
            raise NotFound(f"there is no GPU {name}")

    def _tag(self, whose: Whose, name: str, now: float) -> Tag | None:
        """Return the subject's tag, for its period."""
        if whose is Whose.JOB:
            return self._watching.jobs(now).get(JobId(name))
        tags = self._watching.tags(now)
        found = [tag for subject, tag in tags.items() if whose is Whose.GPU and subject.device == name]
        return found[0] if found else None

    def _worked_out(
        self,
        past: Series,
        scale: ForecastResolution,
        seasons: tuple[float, ...],
        of: tuple[Whose, str, Measure],
    ) -> Forecast | Nothing:
        key = (of, scale.ahead, seasons, past.start)
        with self._working:
            if key not in self._known:
                most = 1.0 if of[-1] in AT_MOST_ONE else None
                self._known[key] = forecast(
                    past.values, past.step, scale.ahead, start=past.start, seasons=seasons, most=most
                )
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            return self._known[key]


def _rhythm(tag: Tag | None, step: float) -> tuple[float, ...]:
    """Return a detected period, if steps of this length can show it."""
    return (tag.period,) if tag is not None and tag.period is not None and tag.period >= 2 * step else ()
