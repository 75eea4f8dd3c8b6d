"""A Kubernetes context: a run is a pod. Nothing of Grus is needed in the cluster, only the job's own image.

The bundle travels in ConfigMaps; the record comes home on the pod's log, for nothing else is there to be
shared. Everything that is made has the comparison's label, and goes by it.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from grus.compare import preflight, records, registry
from grus.compare.backends import carrier_output, pod_manifest, staging
from grus.compare.backends.carrier_output import Parcel
from grus.compare.backends.pod_manifest import CARRIER, IN, PIECES, TASK, WORK, PodStatus
from grus.compare.backends.run_wait import PollSchedule
from grus.compare.environments import (
    SAMPLER,
    Check,
    CollectedFiles,
    DriverFailed,
    Ending,
    EndingKind,
    Environment,
    ManualStep,
    Order,
    PreflightStatus,
    Started,
    Tell,
)
from grus.compare.workload import Workload
from grus.kubernetes.bundle.code_bundles import pack
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Exists, Missing, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, PODS, Object, ResourceKind
from grus.model.errors import BadInput, GrusError

GPU = "nvidia.com/gpu"
RUN = "run"
"""The run's folder, seen from the bundle: a pod has only one."""
PROBE = "probe"
PROBE_PATIENCE = 900.0
"""Seconds that the probe may wait for a node and its image."""
LOOK = 0.2
"""Seconds between two looks at a pod."""
STUCK_LOOKS = 25
"""Looks at a pod that cannot pull its image before it is given up: a registry may have a bad moment."""
GONE_PATIENCE = 300.0
"""Seconds. A busy kubelet may take minutes for a pod that is deleted while its container starts."""
SLACK = 5.0
"""Seconds past its grace after which a pod counts as silent."""
MOST_LOG = 12 << 20


class Kubernetes:
    """A namespace of a cluster."""

    def __init__(
        self,
        environment: Environment,
        *,
        kubeconfig: Path | None = None,
        watch: PollSchedule = PollSchedule(clock=time.time, pause=time.sleep, every=LOOK),  # noqa: B008 - a value
    ) -> None:
        self._environment = environment
        self._context, _, self._namespace = environment.target.partition("/")
        self._kubeconfig = kubeconfig
        self._watch = watch
        self._resource = os.environ.get("GRUS_GPU_RESOURCE") or GPU
        self._api: Api | None = None
        self._key = ""
        self._pieces = 0
        self._workload: Workload | None = None
        self._one_clock = True
        self._parcels: dict[str, Parcel] = {}

    @property
    def environment(self) -> Environment:
        return self._environment

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        self._key = staging.key(self._environment, bundle)
        self._workload = workload
        if not workload.image:
            raise DriverFailed(f"{self._environment}: a pod needs an image; write `image: NAME` into the job")
        try:
            packed = pack(bundle, everything=True)
        except BadInput as why:
            raise DriverFailed(f"the code does not fit into ConfigMaps: {why}") from why
        self._do(self._remove_all)
        for number, content in enumerate(packed.pieces):
            self._make(CONFIG_MAPS, pod_manifest.piece(self._key, number, content))
        self._pieces = len(packed.pieces)
        return _by_hand(workload, never_pulled=pod_manifest.never_pulled(self._pod("x", "x")))

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        self._workload = workload
        fix = "see kubectl config get-contexts, and that you may create pods and configmaps in the namespace"
        try:
            release = self._here.release()
            self._here.create(PODS, self._pod("trial", "trial"), self._space, dry_run=True)
        except GrusError as why:
            return (preflight.unreachable(str(why), fix),)
        found = f"Kubernetes {release} at {self._here.server}, namespace {self._space}"
        return (preflight.reachable(found), *self._probed(workload))

    def start(self, order: Order) -> Started:
        name = pod_manifest.name_of(self._key, staging.checked(order.name))
        self._parcels.pop(name, None)
        files = {"order.json": order.text()}
        argv = ["python3", SAMPLER, f"{IN}/order.json", RUN]
        at = self._watch.clock()
        self._do(lambda: self._begin(name, order.name, files, argv))
        return Started(order=order, handle=name, submitted_at=at)

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        until = started.submitted_at + seconds
        found, placed = self._until_over(started.handle, until, tell)
        if found is None:
            return Ending(end=EndingKind.KILLED, why="somebody deleted its pod")
        queued = staging.span(started.submitted_at, placed)
        if not found.over:
            self._do(lambda: self._take_back(started.handle))
            end = EndingKind.NEVER_STARTED if found.stuck else EndingKind.TIMED_OUT
            return Ending(end=end, why=found.word or found.phase, queued=queued, node=found.node)
        record = self.collect(started).record
        if staging.ended(record) and found.phase == "Succeeded":
            end, why = EndingKind.ENDED, ""
        else:
            end, why = (
                (EndingKind.KILLED if record else EndingKind.NEVER_STARTED),
                self._why(started.handle, found),
            )
        startup = staging.span(placed, records.began(record)) if self._one_clock else None
        return Ending(end=end, why=why, queued=queued, startup=startup, node=found.node)

    def collect(self, started: Started) -> CollectedFiles:
        parcel = self._parcel(started.handle)
        return CollectedFiles(record="") if parcel is None else parcel.collected(RUN)

    def clean_up(self) -> None:
        if self._api is None:
            return
        if self._key:
            self._do(self._remove_all)
        self._api.close()
        self._api = None

    # ----------------------------------------------------------------------------------------------- inside

    @property
    def _here(self) -> Api:
        if self._api is None:
            self._api = Api.connect(self._kubeconfig, context=self._context)
        return self._api

    @property
    def _space(self) -> str:
        return self._namespace or self._here.namespace

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (Refused, Unreachable) as why:
            raise DriverFailed(f"{self._environment}: {why}") from why

    def _pod(self, name: str, run: str) -> Object:
        assert self._workload is not None, "prepare sets it"
        pieces = self._pieces
        return pod_manifest.pod(name, self._key, run, self._workload, pieces=pieces, resource=self._resource)

    def _begin(self, name: str, run: str, files: dict[str, str], argv: list[str]) -> None:
        self._remove(PODS, name)
        self._remove(CONFIG_MAPS, name)
        task = carrier_output.task(WORK, argv, pieces=PIECES, run=RUN)
        given = {**files, CARRIER: carrier_output.source(), TASK: task}
        self._here.create(CONFIG_MAPS, pod_manifest.instructions(name, self._key, run, given), self._space)
        self._here.create(PODS, self._pod(name, run), self._space)

    def _make(self, kind: ResourceKind, body: Object) -> None:
        def act() -> None:
            try:
                self._here.create(kind, body, self._space)
            except Exists:  # of an answer that was lost
                return

        self._do(act)

    def _probed(self, workload: Workload) -> tuple[Check, ...]:
        name = pod_manifest.name_of(self._key, PROBE)
        files = {"probe.py": preflight.source(), "probe.json": preflight.instructions(workload)}
        before = self._watch.clock()
        try:
            self._do(
                lambda: self._begin(name, PROBE, files, ["python3", f"{IN}/probe.py", f"{IN}/probe.json"])
            )
            standing, _ = self._until_over(name, before + PROBE_PATIENCE, lambda _: None)
            parcel = self._parcel(name)
            self._do(lambda: self._remove(PODS, name))
        except DriverFailed as why:
            return (preflight.unseen(str(why)),)
        seen = standing.image_id if standing else ""
        never = pod_manifest.never_pulled(self._pod("x", "x"))
        images = (
            _image(standing, workload.image),
            *registry.checks(workload.image, seen, never_pulled=never),
        )
        found = preflight.found_in(parcel.printed) if parcel else None
        if found is None:
            said = parcel.printed if parcel else standing.word if standing else "its pod was deleted"
            return (*images, preflight.unseen(said[-500:] or "it printed nothing", UNSEEN))
        checks = preflight.judged(found, workload, (before, self._watch.clock()))
        self._one_clock = preflight.clocks_agree(checks)
        return (*checks, *images)

    def _until_over(self, name: str, until: float, tell: Tell) -> tuple[PodStatus | None, float | None]:
        """Wait until it has ended, is stuck or time is up; return its standing and when it was first on a
        node.
        """
        placed: list[float] = []
        stuck = 0

        def look() -> PodStatus | None:
            nonlocal stuck
            found = self._look(name)
            if found is not None and found.node and not placed:
                placed.append(self._watch.clock())
            stuck = stuck + 1 if found is not None and found.stuck else 0
            return found

        def over(found: PodStatus | None) -> bool:
            return found is None or found.over or found.hopeless or stuck >= STUCK_LOOKS

        def word(found: PodStatus | None) -> str:
            return f"{found.phase.lower()} {found.word}".strip() if found else ""

        found = self._watch.until(over, look, word=word, deadline=until, tell=tell)
        return found, placed[0] if placed else None

    def _look(self, name: str) -> PodStatus | None:
        try:
            return pod_manifest.standing(self._here.get(PODS, name, self._space))
        except Missing:
            return None
        except (Refused, Unreachable) as why:
            raise DriverFailed(f"{self._environment}: {why}") from why

    def _parcel(self, name: str) -> Parcel | None:
        """Return the parcel that the pod's carrier printed.

        It is cached, since the pod may be deleted before the next call.
        """
        if name not in self._parcels:
            self._keep(name, self._log(name))
        return self._parcels.get(name)

    def _keep(self, name: str, log: bytes) -> None:
        if (found := carrier_output.opened(log.decode(errors="replace"))) is not None:
            self._parcels[name] = found

    def _log(self, name: str) -> bytes:
        try:
            with self._here.log(name, self._space, limit_bytes=MOST_LOG) as log:
                return b"".join(log)
        except (Refused, Unreachable):  # no container of it ever ran, or its node is gone
            return b""

    def _why(self, name: str, found: PodStatus) -> str:
        parcel = self._parcel(name)
        told = parcel.printed if parcel else self._log(name).decode(errors="replace")
        lines = told.strip().splitlines()
        return ": ".join(part for part in (found.word or found.phase, lines[-1] if lines else "") if part)

    # ---------------------------------------------------------------------------------------------- removing

    def _remove_all(self) -> None:
        for kind in (PODS, CONFIG_MAPS):
            found, _ = self._here.list(kind, self._space, labels=f"{pod_manifest.LABEL}={self._key}")
            for one in found:
                self._remove(kind, one["metadata"]["name"])

    def _take_back(self, name: str) -> None:
        """Delete the pod, with time for the sampler to end its workload and for the carrier to send the rest.

        Its log is read while it ends: a kubelet throws away the logs of deleted pods at once.
        """
        try:
            with self._here.log(name, self._space, follow=True) as log:
                self._here.delete(PODS, name, self._space, grace=pod_manifest.GRACE)
                silence = threading.Timer(pod_manifest.GRACE + SLACK, log.close)
                silence.start()
                try:
                    self._keep(name, b"".join(log))
                finally:
                    silence.cancel()
        except (Refused, Unreachable):  # no container of it runs, or it broke off: there is nothing to read
            pass
        self._remove(PODS, name)

    def _remove(self, kind: ResourceKind, name: str) -> None:
        """And wait until it is gone: what still runs would be measured with the next run.

        A kubelet may take a minute to clear away a pod whose containers have ended; that is not waited for.
        """
        until = self._watch.clock() + GONE_PATIENCE
        grace = 1 if kind is PODS else None
        try:
            self._here.delete(kind, name, self._space, grace=grace)
            while self._watch.clock() < until:
                found = self._here.get(kind, name, self._space)
                if kind is PODS and pod_manifest.ended(found):
                    self._here.delete(kind, name, self._space, grace=0, uid=found["metadata"]["uid"])
                self._watch.pause(LOOK)
        except Missing:
            return
        told = f"{kind.name} {name} is still there after {GONE_PATIENCE:.0f} s: see kubectl describe"
        raise DriverFailed(told)


UNSEEN = "the image needs python3; see kubectl get events for what the node says"


def _image(standing: PodStatus | None, image: str) -> Check:
    """Check whether the node had the image or could pull it, and report the image's id."""
    if standing is None or not standing.image_id:
        word = standing.word if standing else "the pod is gone"
        fix = (
            "see that its name is right, that nodes reach the registry, and that the namespace has the secret"
        )
        return Check(name="image", verdict=PreflightStatus.FAILED, found=f"{image}: {word}", fix=fix)
    return Check(name="image", verdict=PreflightStatus.OK, found=f"{image} is {standing.image_id}")


def _by_hand(workload: Workload, *, never_pulled: bool) -> tuple[ManualStep, ...]:
    brought = "bring it to every node" if never_pulled else "push it to its registry"
    return (
        ManualStep(what="get a context for the cluster into the kubeconfig", why="credentials"),
        ManualStep(what=f"build the image {workload.image} with the workload's libraries", why="image"),
        ManualStep(what=brought, why="image"),
    )
