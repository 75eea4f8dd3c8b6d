"""The past of everything that is measured, in one file of its own that may be lost: `Recorder`.

    recorder.add(samples)                                         what `grus.telemetry.samples` calls samples
    recorder.read(subject, measure, since, until, step) → Series  means on an even grid, NaN where unknown
    recorder.subjects()                                           whose series there are

Subjects are GPUs, workers and machines, and besides them two kinds that nobody measures but that are counted
once a minute: the pool (`POOL`) and each queue (`of_queue(name)`), both with the measures `held` and `demand`
in GPUs; the pool with `capacity` and `stranded` too, and with the mean `utilisation` of its GPUs.
"""

from grus.telemetry.recorder.recorder import Recorder
from grus.telemetry.recorder.series import POOL, Series, of_queue, queue_of
from grus.telemetry.recorder.tiers import Keep

__all__ = ["POOL", "Keep", "Recorder", "Series", "of_queue", "queue_of"]
