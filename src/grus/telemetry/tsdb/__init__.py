"""The past of all measurements, in one file of its own that may be lost: `Recorder`.

    recorder.add(samples)                                         samples as in `grus.telemetry.samples`
    recorder.read(subject, measure, since, until, step) → Series  means on an even grid, NaN if unknown
    recorder.subjects()                                           all subjects with series

Subjects are GPUs, workers and machines, and besides them two kinds that are not measured but are counted once
a minute: the pool (`POOL`) and each queue (`of_queue(name)`), both with the measures `held` and `demand` in
GPUs; the pool with `capacity` and `stranded` too, and with the mean `utilisation` of its GPUs.
"""

from grus.telemetry.tsdb.recorder import Recorder
from grus.telemetry.tsdb.series import POOL, Series, of_queue
from grus.telemetry.tsdb.tiers import Keep

__all__ = ["POOL", "Keep", "Recorder", "Series", "of_queue"]
