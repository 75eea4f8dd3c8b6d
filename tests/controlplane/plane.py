"""A whole control plane in virtual time: the real loop, services and scheduler on a reference store and a
simulated engine. `Plane` drives it by hand, checks the invariants after every step, and can be killed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from grus.controlplane.admission.submission import JobRequest
from grus.controlplane.cluster_view import usage
from grus.controlplane.facade.services import Services
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.reconciler.loop import ControlLoop, Decide, Tags
from grus.controlplane.settings import Settings
from grus.controlplane.sweeps.sweep_controller import Decide as SearchDecides
from grus.controlplane.sweeps.sweep_controller import Sweeper
from grus.controlplane.sweeps.trial_index import Trials
from grus.model.activity_labels import Tag
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import QUEUES, USERS, AccessRole, Engine, Event, Store, User
from grus.model.jobs import HOLDING, NEXT, Job, Phase, Spec
from grus.model.nodes import Node
from grus.model.queues import Queue
from grus.model.resources import GPU
from grus.scheduler.cycle import decide as real_decide
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.recorded.decision_recorder import Recording
from grus.store.memory import MemoryStore
from grus.tuning import decide_trials
from tests.fakes.engine import SimulatedEngine
from tests.scheduler.builders import a_job, a_pool

ADMIN = User(name=UserName("root"), role=AccessRole.ADMIN)
ANN = User(name=UserName("ann"))


def a_spec(name: str = "job", **changes: object) -> Spec:
    """A spec in the words of `a_job`; fields of Spec itself can be given too."""
    own = {
        key: changes.pop(key)
        for key in list(changes)
        if key
        in (
            *("setup", "launch", "snapshot", "workdir", "run", "checkpoint", "image", "pod", "idle", "data"),
            *("inputs", "outputs", "after_failure", "params", "request"),
        )
    }
    spec = a_job(name, **changes).spec  # type: ignore[arg-type]  # keywords of many types
    return replace(spec, workdir="/", **own) if "workdir" not in own else replace(spec, **own)  # type: ignore[arg-type]  # keywords of many types


def a_request(spec: Spec) -> JobRequest:
    """A request for this job with any id."""
    return JobRequest(id=JobId("asked"), spec=spec)


class Server:
    """One control plane over a store and an engine: its loop, its services and its sweeps, driven by hand."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        *,
        settings: Settings,
        clock: Callable[[], float],
        entropy: Callable[[], int],
        steady: Callable[[], float] | None = None,
        decide: Decide = real_decide,
        search: SearchDecides = decide_trials.decide,
        snapshot: Snapshot | None = None,
        tags: Tags = lambda _: {},
        compare: Callable[[JobId], None] | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self.loop = ControlLoop(
            store,
            engine,
            settings=settings,
            clock=clock,
            steady=steady,
            decide=decide,
            snapshot=snapshot,
            tags=tags,
            compare=compare,
            profiles=profiles,
        )
        self.services = Services(store, engine, self.loop, settings=settings, clock=clock, entropy=entropy)
        trials = Trials(store)
        self.sweeper = Sweeper(store, self.loop, trials, clock=clock, entropy=entropy, decide=search)

    def open(self) -> None:
        """It takes over."""
        self.loop.open()
        self.sweeper.open()

    def close(self) -> None:
        """It acts no more, and hears nothing."""
        self.sweeper.close()
        self.services.close()
        self.loop.close()


class Plane:
    """Store, engine, loop and services, all in one thread."""

    def __init__(
        self,
        *queues: Queue,
        pool: str | tuple[Node, ...] = "1x4",
        state: Path = Path("/nonexistent"),
        decide: Decide = real_decide,
        store: Store | None = None,
        record: list[bytes] | None = None,
        search: SearchDecides = decide_trials.decide,
        compares: bool = False,
    ) -> None:
        self.settings = Settings(state=state, environment=(("PATH", "/bin"),), boxed=True)
        self.store: Store = store or MemoryStore()
        self.store.put(USERS, ADMIN)
        self.store.put(USERS, ANN)
        for queue in queues:
            self.store.put(QUEUES, queue)
        self.engine = SimulatedEngine(a_pool(pool) if isinstance(pool, str) else pool)
        self._decide = decide
        self.search_decides = search
        self._record = record
        """Where everything that the scheduler is told and decides is written down, if it shall be."""
        self._compares = compares
        """True if stages are held back until they were compared with earlier runs."""
        self.compare: Callable[[JobId], None] = lambda _: None
        """Requests the comparison of a stage."""
        self.tags: dict[JobId, Tag] = {}
        """What is recognised of jobs; the loop asks when it looks at its nodes."""
        self._ids = 0
        self._writes = 0
        self._phases: dict[JobId, Phase] = {}
        self._illegal: list[str] = []
        self.store.subscribe(self._check_writes)
        self.begin()

    @property
    def now(self) -> float:
        return self.engine.now

    def begin(self) -> None:
        """A control plane takes over."""
        lines = [] if self._record is None else self._record
        recording = Recording(lines.append, on_end=lambda _: None)
        self.profiles = Profiles(self.store)
        server = Server(
            self.store,
            self.engine,
            settings=self.settings,
            clock=lambda: self.engine.now,
            entropy=self._entropy,
            decide=self._decide if self._record is None else recording.of(self._decide),
            search=self.search_decides,
            snapshot=None if self._record is None else recording.snapshot(),
            tags=lambda _: self.tags,
            compare=(lambda job: self.compare(job)) if self._compares else None,
            profiles=self.profiles,
        )
        self.loop, self.services, self.sweeper = server.loop, server.services, server.sweeper
        server.open()

    def restart(self, store: Store | None = None) -> None:
        """The control plane dies where it stands and another takes over; workers go on.

        `store` is where it finds what is on record, if that is another object than before.
        """
        self.engine = self.engine.reborn()
        if store is not None and store is not self.store:
            self.store = store
            store.subscribe(self._check_writes)
        self.begin()

    def close(self) -> None:
        self.sweeper.close()
        self.services.close()
        self.loop.close()

    def _entropy(self) -> int:
        self._ids += 1
        return self._ids

    # ------------------------------------------------------------------------------ driving

    def settle(self) -> "Plane":
        self.loop.settle(self.now)
        self.check()
        return self

    def search(self) -> "Plane":
        """Let sweeps and the loop take turns until neither has more to do."""
        for _ in range(1000):
            before = self._writes
            self.sweeper.step(self.now)
            self.settle()
            if self._writes == before:
                return self
        raise AssertionError("the sweeps do not come to rest")

    def submit(self, name: str = "job", user: User = ANN, **spec: object) -> JobId:
        """Submit and settle."""
        job = self.services.actions.submit(user, a_spec(name, **spec)).result()
        self.settle()
        return job.id

    def after(self, seconds: float) -> "Plane":
        """Let time pass, then settle."""
        self.engine.advance(seconds)
        return self.settle()

    def do(self, what: Callable[[], object]) -> "Plane":
        what()
        return self.settle()

    # ------------------------------------------------------------------------------- looking

    def job(self, id_: JobId) -> Job:
        return self.store.job(id_)

    def phase(self, id_: JobId) -> Phase:
        return self.store.job(id_).phase

    def kinds(self, id_: JobId) -> list[str]:
        return [event.kind for event in self.store.events(job=id_)]

    # ---------------------------------------------------------------------------- invariants

    def check(self) -> None:
        """S1, S2, S7 and S10 as they must hold at every moment."""
        holding = self.store.jobs(phases=tuple(HOLDING))
        recorded = usage(holding)
        assert all(held <= GPU for held in recorded.values()), recorded
        # A worker that shares its GPU is bound to all of it: only the record says what it holds of it.
        sharers = [seat for job in holding if job.spec.request.shares for seat in job.seats]
        for seat in sharers:
            recorded[seat.devices[0]] += GPU - seat.share
        for device, held in self.engine.held().items():
            # The setup and the program of a job never run together, so a device is bound at most once.
            assert held <= recorded.get(device, 0), (
                f"{device}: {held} bound, {recorded.get(device, 0)} on record"
            )
        for job in self.store.jobs():
            assert job.seats == () or job.phase in HOLDING, job
            attempts = {
                one.spec.attempt
                for id_, one in self.engine.workers_alive.known.items()
                if id_.startswith(f"{job.id}.") and id_ in self.engine.alive()
            }
            assert len(attempts) <= 1, f"{job.id} has two live attempts: {attempts}"
        assert self.loop.drift == 0
        assert self._illegal == []

    def _check_writes(self, written: Sequence[tuple[Job, Event | None]]) -> None:
        """In the store, which lets nobody who listens stop it: what is wrong is told by `check`."""
        self._writes += len(written)
        for job, _ in written:
            before = self._phases.get(job.id, Phase.PENDING)
            if job.phase is not before and job.phase not in NEXT[before]:
                self._illegal.append(f"{job.id}: {before} to {job.phase}")
            self._phases[job.id] = job.phase
