"""Make the recorded run whose decisions are golden: `python -m tests.golden.record`.

A whole control plane in virtual time, recorded as `server.record` does. Record it again only when the form
of records changes: an old record must stay readable, and its decisions must stay the same.
"""

import sys
from collections.abc import Callable, Sequence

from grus.model.interfaces import Event
from grus.model.jobs import Job
from tests.controlplane.plane import ANN, Plane
from tests.golden.files import FOLDER
from tests.scheduler.builders import a_queue, lose

FILE = FOLDER / "recorded_run.jsonl"
Hear = Callable[[Event], object]


def run(hear: Hear = lambda _: None) -> list[bytes]:
    """Two teams lend each other GPUs, share some, wait, lose one, and are led by two control planes."""
    record: list[bytes] = []
    vision, speech = a_queue("vision", quota=4), a_queue("speech", quota=4, reserved=1)
    plane = Plane(vision, speech, pool="2x4", record=record)
    plane.store.subscribe(lambda written: _tell(hear, written))
    elastic = plane.submit("elastic", queue="vision", gpus="2..6")
    plane.submit("slice", queue="speech", gpus=0.5)
    plane.submit("other-slice", queue="speech", gpus="8GB")
    # The owners of lent GPUs want them back.
    gang = plane.after(60.0).submit("gang", queue="speech", gpus=3)
    plane.after(30.0)
    # It waits for more than is free; a short one may pass it, and a session comes before both.
    plane.submit("large", queue="vision", gpus=6)
    plane.submit("short", queue="speech", gpus=1, max_runtime=120.0)
    plane.submit("session", queue="vision", gpus=1, type="dev")
    plane.after(60.0)
    plane.restart()
    plane.settle()
    plane.do(lambda: plane.services.actions.pause(ANN, elastic)).after(60.0)
    plane.engine.finish(gang)
    plane.after(60.0)
    plane.engine.pool = lose(plane.engine.pool, "n1-3")
    plane.after(30.0)
    plane.do(lambda: plane.services.actions.resume(ANN, elastic)).after(600.0)
    plane.close()
    return record


def _tell(hear: Hear, written: Sequence[tuple[Job, Event | None]]) -> None:
    for _, event in written:
        if event is not None:
            hear(event)


def main() -> int:
    FILE.write_bytes(b"".join(run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
