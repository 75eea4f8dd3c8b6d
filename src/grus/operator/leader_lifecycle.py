"""Life cycle of a controller process: wait for leadership, lead, stop. A lost leadership ends the process.

The process leads only once, and the cluster starts another; so nothing of an old leader is left that could
act.
"""

import logging
import signal
import threading
from collections.abc import Callable

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.leader_election import Leadership
from grus.operator.controller import Controller
from grus.operator.options import Options
from grus.sdk.sigterm import SignalFlag

log = logging.getLogger(__name__)

Serve = Callable[[Controller, "Brake"], None]
"""Work of a leader until the brake is pulled."""


class Brake:
    """Brake that ends the process; the first pull sets the reason."""

    def __init__(self) -> None:
        self._pulled = threading.Event()
        self.why = ""
        """Reason of the pull; empty if the end was requested."""
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
    """Lead until the brake is pulled; return the exit code. Raises GrusError if it cannot lead."""
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
    """Pull the brake on SIGTERM and SIGINT.

    The signal handler only sets a flag: pulling the brake needs locks.
    """
    asked = SignalFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())

    def obey() -> None:
        asked.wait()
        log.info("asked to stop by a signal")
        brake.pull()

    threading.Thread(target=obey, name="signals", daemon=True).start()


def _in_background(act: Callable[[], None]) -> Callable[[], None]:
    return lambda: threading.Thread(target=act, name="release", daemon=True).start()
