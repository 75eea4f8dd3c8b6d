"""The life of a controller process: wait for leadership, lead, stop. It leads once: who has lost ends.

The process ends with it, and the cluster starts another; so nothing of an old leader is left that could act.
"""

import logging
import signal
import threading
from collections.abc import Callable

from grus.kubernetes.api import Api
from grus.kubernetes.leadership import Leadership
from grus.operator.controller import Controller
from grus.operator.options import Options
from grus.sdk.asked import Asked

log = logging.getLogger(__name__)

Serve = Callable[[Controller, "Brake"], None]
"""What a leader does until the brake is pulled."""


class Brake:
    """Whoever pulls it first says why the process ends."""

    def __init__(self) -> None:
        self._pulled = threading.Event()
        self.why = ""
        """Empty if somebody has asked for it."""
        self.on_pull: Callable[[], None] = lambda: None

    def pull(self, why: str = "") -> None:
        if not self._pulled.is_set():
            self.why = why
            self._pulled.set()
            self.on_pull()

    @property
    def pulled(self) -> bool:
        return self._pulled.is_set()

    def wait(self) -> None:
        self._pulled.wait()


def lead(api: Api, options: Options, brake: Brake, *, serve: Serve = lambda _, brake: brake.wait()) -> int:
    """Until the brake is pulled; the exit code. Raises GrusError if it cannot lead."""
    leadership = Leadership(
        api,
        options.namespace,
        me=options.identity,
        duration=options.lease,
        renew=options.renew,
        on_lost=lambda: brake.pull("another controller leads now"),
    )
    brake.on_pull = _in_background(leadership.release)  # ends the waiting for leadership, too
    if brake.pulled or not leadership.acquire():  # pulled before there was anything to end
        return 0
    try:
        controller = Controller(api.guarded(leadership.valid), options, leadership, on_stopped=brake.pull)
        try:
            log.info("ready: leading with epoch %d", leadership.epoch)
            serve(controller, brake)
        finally:
            controller.close()
    finally:
        brake.on_pull = lambda: None
        leadership.release()
    if brake.why:
        log.error("the controller ends: %s", brake.why)
    return 1 if brake.why else 0


def on_signals(brake: Brake) -> None:
    """SIGTERM and SIGINT ask it to stop. Their handler only rings: pulling the brake needs locks."""
    asked = Asked()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())

    def obey() -> None:
        asked.wait()
        log.info("asked to stop by a signal")
        brake.pull()

    threading.Thread(target=obey, name="signals", daemon=True).start()


def _in_background(act: Callable[[], None]) -> Callable[[], None]:
    return lambda: threading.Thread(target=act, name="release", daemon=True).start()
