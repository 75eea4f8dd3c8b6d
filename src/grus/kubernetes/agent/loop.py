"""Agent loop: one thread handles all volumes and processes of the node, in rounds.

A round starts when a pod changes, a bell rings, or an action is due. It checks every pod of the node, some
hundred at most, so a missed notification of a change does no harm.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grus.kubernetes.agent.pods import wanted
from grus.kubernetes.agent.processes import Processes
from grus.kubernetes.agent.tracked_pod import Tracked
from grus.kubernetes.agent.usage import AgentMeter, Gpus, excess, told
from grus.kubernetes.agent.volume import Volume, place
from grus.kubernetes.names import ANSWERED, ASKED, OVER, READ, SAID, SIGNALLED, USAGE, UUIDS
from grus.kubernetes.node.annotation_patcher import Address, Writer
from grus.kubernetes.node.cgroups import Groups

logger = logging.getLogger(__name__)

QUICK = 0.05
"""Seconds between two looks while something is about to happen: a start, an end, a kill."""
PATIENT = 0.5
"""The same for a pod that has been starting for long: its image is being fetched."""
LONG = 30.0
REST = 0.1
"""Seconds that a bell is ignored after it has rung; this limits a worker that rings without end."""
REPORTS = 5.0
"""Seconds between two reads of a report whose worker does not ring."""
FAILED = 1.0
"""Seconds after a round that failed."""


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Paths of the node's folders, as the agent sees them."""

    pods: Path = Path("/var/lib/kubelet/pods")
    cgroups: Path = Path("/sys/fs/cgroup")
    proc: Path = Path("/proc")


class Loop:
    """`change` may be called from any thread, everything else from the one that calls `run`."""

    def __init__(self, places: NodePaths, writer: Writer, gpus: Gpus, me: Address | None) -> None:
        self._places = places
        self._writer = writer
        self._me = me
        """The agent's own pod, on which it writes the others' usage; None where it is no pod."""
        self._groups = Groups(places.cgroups)
        self._meter = AgentMeter(self._groups, gpus)
        self._processes = Processes(places.proc)
        self._pods: dict[str, Tracked] = {}
        self._asked = self._answered = ""
        """Token of a new controller, to be echoed once all
        reports are on the pods, and the last one echoed.
        """
        self._looked = ""
        """Token for which all reports were last read."""
        self._guard = threading.Lock()
        self._news: list[tuple[str, Mapping[str, Any]]] = []
        self._closed = False
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)

    def change(self, event: str, pod: Mapping[str, Any]) -> None:
        """Queue a reflector's event: ADDED, MODIFIED or DELETED."""
        with self._guard:
            self._news.append((event, pod))
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Stop the loop, from any thread, or from a signal handler."""
        self._closed = True
        os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        """Run until stopped."""
        pause = 0.0
        while not self._closed:
            rung = self._epoll.poll(pause)
            try:
                pause = self.round([handle for handle, _ in rung])
            except Exception:  # program boundary: the other pods need the agent
                logger.exception("a round failed; the next one comes")
                pause = FAILED
        for tracked in self._pods.values():
            tracked.close()

    def round(self, rung: Sequence[int] = ()) -> float:
        """Everything that can be done now; seconds until there is more to do by itself."""
        self._take_news(rung)
        now = time.monotonic()
        for tracked in list(self._pods.values()):
            self._attach(tracked, now)
            self._bring_control(tracked)
            self._hear(tracked, rung, now)
            self._name_gpus(tracked)
            self._ask_to_end(tracked)
            self._kill(tracked)
            self._conclude(tracked)
        self._answer(now)
        self._measure(now)
        if self._asked != self._answered:
            return QUICK
        return min([self._pause(tracked, now) for tracked in self._pods.values()] + [self._meter.pause(now)])

    # ------------------------------------------------------------------------------- steps of a round

    def _take_news(self, rung: Sequence[int]) -> None:
        if self._wake in rung:
            os.eventfd_read(self._wake)
        with self._guard:
            news, self._news = self._news, []
        for event, pod in news:
            self._hear_question(pod)
            found = wanted(pod)
            if found is None:
                continue
            tracked = self._pods.get(found.uid)
            if event == "DELETED":
                self._forget(found.uid)
            elif tracked is None:
                self._pods[found.uid] = Tracked(found, time.monotonic())
            else:
                tracked.wanted = found

    def _hear_question(self, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        if self._me is not None and (metadata["namespace"], metadata["name"]) == (
            self._me.namespace,
            self._me.name,
        ):
            self._asked = (metadata.get("annotations") or {}).get(ASKED, "")

    def _answer(self, now: float) -> None:
        """Echo the controller's token once all reports that workers have made by now are on their pods."""
        if self._asked == self._answered or self._me is None:
            return
        if self._looked != self._asked:
            self._looked = self._asked
            for tracked in self._pods.values():
                if tracked.volume is not None and not tracked.read:
                    self._tell_report(tracked, now)
        if self._writer.quiet():
            self._answered = self._asked
            self._writer.put(self._me, {ANSWERED: self._asked})

    def _forget(self, uid: str) -> None:
        tracked = self._pods.pop(uid, None)
        if tracked is not None:
            self._writer.drop(tracked.address)
            tracked.close()
            self._groups.forget(uid)

    def _attach(self, tracked: Tracked, now: float) -> None:
        """Find the files that the init container has made, and signal it."""
        pod = tracked.wanted
        if not pod.worker or tracked.volume is not None or tracked.read:
            return
        tracked.volume = Volume.find(place(self._places.pods, pod.uid))
        if tracked.volume is None:
            return
        self._epoll.register(tracked.volume.bell, select.EPOLLIN | select.EPOLLONESHOT)
        self._bring_control(tracked)
        tracked.volume.attach()
        self._tell_report(tracked, now)  # written while no agent was running

    def _bring_control(self, tracked: Tracked) -> None:
        control = tracked.wanted.control
        if tracked.volume is None or control is None or control == tracked.written or tracked.wanted.ended:
            return
        try:
            tracked.volume.write_control(control)
        except OSError as error:  # full, or made unusable: only its own loss, and the next round tries again
            logger.warning("%s: its control file cannot be written: %s", tracked.address, error)
            return
        tracked.written = control

    def _hear(self, tracked: Tracked, rung: Sequence[int], now: float) -> None:
        """Bells, and reports that are due without one."""
        volume = tracked.volume
        if volume is None or tracked.read:
            return
        if volume.bell in rung:
            volume.hear()
            self._tell_report(tracked, now)
            tracked.rested_at = now + REST
        elif tracked.rested_at and now >= tracked.rested_at:
            tracked.rested_at = 0.0
            self._epoll.modify(volume.bell, select.EPOLLIN | select.EPOLLONESHOT)
        if now >= tracked.read_at + REPORTS:
            self._tell_report(tracked, now)
            if volume.renew_bell():
                self._epoll.register(volume.bell, select.EPOLLIN | select.EPOLLONESHOT)
                tracked.rested_at = 0.0

    def _tell_report(self, tracked: Tracked, now: float) -> None:
        assert tracked.volume is not None
        tracked.read_at = now
        line = tracked.volume.last_line()
        if line and line != tracked.said:
            tracked.said = line
            self._writer.put(tracked.address, {SAID: line})

    def _name_gpus(self, tracked: Tracked) -> None:
        pod = tracked.wanted
        if tracked.uuids or not pod.running or not pod.gpus:
            return
        pids = self._processes.workers(lambda: self._groups.processes(pod.uid), shared=pod.shared)
        tracked.uuids = self._processes.gpus(pids)
        if tracked.uuids:
            self._writer.put(tracked.address, {UUIDS: tracked.uuids})

    def _ask_to_end(self, tracked: Tracked) -> None:
        """SIGTERM, once, when it is known that it will be killed."""
        pod = tracked.wanted
        if not _to_be_asked(tracked):
            return
        if self._processes.terminate(lambda: self._groups.processes(pod.uid), pod.uid, shared=pod.shared):
            tracked.signalled = True
            self._writer.put(tracked.address, {SIGNALLED: "true"})

    def _kill(self, tracked: Tracked) -> None:
        pod = tracked.wanted
        tracked.killing = pod.kill_at is not None and pod.kill_at <= time.time() and not pod.ended
        if tracked.killing:
            self._processes.kill(lambda: self._groups.processes(pod.uid), pod.uid, shared=pod.shared)

    def _conclude(self, tracked: Tracked) -> None:
        """Write a worker's last report, once none of its processes is left that could add to it."""
        pod = tracked.wanted
        if not pod.worker or not pod.ended or tracked.read:
            return
        if self._processes.workers(lambda: self._groups.processes(pod.uid), shared=pod.shared):
            return
        if tracked.volume is not None:
            tracked.said = tracked.volume.last_line() or tracked.said
        notes = {SAID: tracked.said} if tracked.said != pod.said else {}
        self._writer.put(tracked.address, {**notes, READ: "true"})
        tracked.read = True
        tracked.close()

    def _measure(self, now: float) -> None:
        running = [one.wanted for one in self._pods.values() if one.wanted.running and not one.wanted.ended]
        self._meter.plan(running, now)
        found, tell = self._meter.measure(running, now)
        for pod in running:
            sentence = excess(pod, found[pod.uid]) if pod.uid in found else ""
            tracked = self._pods[pod.uid]
            if sentence and not tracked.over:
                tracked.over = True
                self._writer.put(tracked.address, {OVER: sentence})
        if tell and self._me is not None:
            self._writer.put(self._me, {USAGE: told(time.time(), found)})

    def _pause(self, tracked: Tracked, now: float) -> float:
        """Seconds until this pod needs another look, though nothing happens."""
        pod = tracked.wanted
        if tracked.read or (pod.ended and not pod.worker):
            return LONG
        if tracked.killing or pod.ended or _to_be_asked(tracked):
            return QUICK
        waits = [LONG]
        if pod.kill_at is not None:
            waits.append(pod.kill_at - time.time())
        if not tracked.uuids and pod.running and pod.gpus:
            waits.append(PATIENT)
        if tracked.volume is not None:
            waits.append(tracked.read_at + REPORTS - now)
            if tracked.rested_at:
                waits.append(tracked.rested_at - now)
            if pod.control is not None and pod.control != tracked.written:
                waits.append(PATIENT)
        elif pod.worker:
            waits.append(QUICK if now < tracked.seen_at + LONG else PATIENT)
        return max(0.0, min(waits))


def _to_be_asked(tracked: Tracked) -> bool:
    """Return whether the pod's end is decided and its worker has not been signaled yet.

    A pod that is deleted gets the signal from the kubelet.
    """
    pod = tracked.wanted
    return pod.kill_at is not None and pod.running and not pod.ended and not tracked.signalled
