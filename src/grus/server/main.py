"""A server's life: take the state, open what lasts, run, let go. Jobs go on before, between and after.

The order matters. The lock comes first, so that nothing is touched that another server uses; the address is
told last, when everything answers; on the way out everything is let go in the reverse order.
"""

import gc
import json
import logging
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grus
from grus.api.wire import to_queue
from grus.controlplane import isolation
from grus.controlplane.collecting import Collector
from grus.controlplane.forecasting import Forecaster
from grus.controlplane.insight import Insight
from grus.controlplane.loop import ControlLoop
from grus.controlplane.profiles import Profiles
from grus.controlplane.profiling import Profiling
from grus.controlplane.result_keeping import ResultKeeper
from grus.controlplane.retention import Retention
from grus.controlplane.secret_store import SecretStore
from grus.controlplane.services import Services
from grus.controlplane.settings import Settings
from grus.controlplane.skipping import Skipping
from grus.controlplane.sweeping import Sweeper
from grus.controlplane.tag_keeping import TagKeeper
from grus.controlplane.trials import Trials
from grus.controlplane.watching import holding
from grus.engines.local import boxes, epochs
from grus.engines.local.engine import LocalEngine
from grus.model.errors import BadInput, Mistake
from grus.model.ports import Store, User
from grus.model.queues import DEFAULT_QUEUE, check_tree, pool_of_quotas
from grus.model.resources import GPU
from grus.scheduling.cycle import decide
from grus.scheduling.policies import policy_named
from grus.scheduling.snapshot import Snapshot
from grus.server import listen, pools
from grus.server.app import Mount, create_app
from grus.server.config import ServerSettings, in_file, is_loopback
from grus.server.dev import dev_app
from grus.server.dev_sessions import Doorway, Origins
from grus.server.figures import Figures
from grus.server.first_start import ensure_admin
from grus.server.lock import StateLock
from grus.server.logs import log_to
from grus.server.record import DATABASE, require
from grus.server.sessions import key_in
from grus.server.telemetry import watch
from grus.simulation.recording import MOST_BYTES, Recording
from grus.store.on_disk import make_folder, sync_folder
from grus.store.sqlite import SqliteStore
from grus.telemetry.source import DeviceSource

log = logging.getLogger(__name__)

SWITCH = 0.001
"""Seconds after which a thread that computes lets another one go on: who asks shall not wait for what is done
beside."""
SELDOM = (50_000, 20, 1000)
"""How many new objects are looked through for circles, and how seldom the old ones: that takes a quarter of a
second with 100,000 jobs, in which nobody is answered."""
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ")
"""What jobs see of the server's own environment, unless they say otherwise."""


def serve(settings: ServerSettings, mount: Mount | None = None) -> int:
    """Run a server until it is asked to stop; the exit code. Raises GrusError if it cannot start.

    `mount` adds pages for people; without it there is the API alone.
    """
    os.umask(0o077)
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*SELDOM)
    with ExitStack() as stack:
        _take_state(settings, stack)
        sock = listen.bind(settings.host, settings.port)
        stack.callback(sock.close)
        dev_sock = listen.bind_beside(settings.host, sock.getsockname()[1], settings.dev_port)
        stack.callback(dev_sock.close)
        pool = pools.choose(settings.pool, settings.places.state / "pool")
        require(settings.places.state)
        store = SqliteStore(settings.places.state / DATABASE)
        stack.callback(store.close)
        store.raise_epoch(epochs.highest(settings.places.state / "engine"))  # a restore may have broken off
        first = ensure_admin(store, settings.places.token_file, time.time()) is not None
        _put_queues(store, settings, pool.source)
        brake, figures = listen.Brake(), Figures()
        loop, services = _start_loop(settings, store, pool.source, figures, brake, stack)
        key = key_in(settings.places.state / "session.key")
        doorway = _doorway(settings, dev_sock)
        app = create_app(
            services,
            allowed_hosts=settings.hosts,
            allowed_origins=settings.allowed_origins,
            requests_per_second=settings.requests_per_second,
            pulse=loop.pulse,
            figures=figures,
            mount=mount,
            session_key=key,
            doorway=doorway,
            gone=store.gone,
        )
        sessions = listen.Beside(dev_app(services, doorway, key), dev_sock, settings, **listen.SOCKETS)
        stack.callback(sessions.close)
        sessions.start()
        address = listen.address(sock, settings)
        sock.listen(listen.BACKLOG)  # from here on nobody who reads the address is refused
        stack.enter_context(_announced(settings, address))
        _say(settings, address, pool.notice, store.users(), first=first)
        listen.run(app, sock, settings, brake)
        log.info("stopping; jobs go on")
    if brake.why:
        _tell(f"The server has stopped: {brake.why}")
    return 1 if brake.why else 0


def _doorway(settings: ServerSettings, sock: socket.socket) -> Doorway:
    scheme = "https" if settings.tls else "http"
    return Doorway(Origins(scheme, settings.session_host, sock.getsockname()[1]), time.monotonic)


def _take_state(settings: ServerSettings, stack: ExitStack) -> None:
    state = settings.places.state
    new = [folder for folder in state.parents if not folder.exists()]
    make_folder(state)
    sync_folder(state.parent)  # whoever made it
    # Jobs that run as another Unix user must reach their control files: passage for them, nothing more.
    for folder in (state, *new):
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    lock = StateLock(settings.places.lock_file)
    lock.take()
    stack.callback(lock.release)
    handler = log_to(settings.places.log_file)
    stack.callback(handler.close)
    stack.callback(logging.getLogger().removeHandler, handler)


def _put_queues(store: Store, settings: ServerSettings, source: DeviceSource) -> None:
    """The queues of config.toml are as it says at every start; those made by hand stay."""
    given = {name: to_queue(name, queue) for name, queue in settings.queues}
    if not given:
        return
    pool = GPU * sum(len(node.devices) for node in source.nodes(()))
    before = store.queues()
    merged = {queue.name: queue for queue in before} | {queue.name: queue for queue in given.values()}
    tree = [queue for queue in merged.values() if queue.name != DEFAULT_QUEUE]
    if mistakes := check_tree(tree, pool_of_quotas(pool, before, tree)):  # one GPU less must not keep it down
        raise in_file(settings.places, mistakes)
    for queue in given.values():
        store.put_queue(queue).result()


def _boxes(settings: ServerSettings, control: Settings) -> boxes.Boxes | None:
    if settings.isolation != "bubblewrap":
        return None
    program = shutil.which(boxes.PROGRAM)
    if (why := boxes.trouble(program)) or program is None:
        rule = f'cannot be "bubblewrap" here ({why}); mend that, or set it to "processes"'
        raise in_file(settings.places, [Mistake("server.isolation", rule)])
    at = settings.places
    secrets = tuple(path for path in (at.token_file, at.config_file, settings.key) if path is not None)
    installed = (Path(sys.prefix), Path(grus.__file__).parent)
    return boxes.Boxes(
        program,
        at.state.absolute(),
        control.code.absolute(),
        secrets,
        same_user=not control.as_submitters,
        writable=settings.writable,
        settings=at.config.absolute(),
        protected=installed,
    )


def _control(settings: ServerSettings) -> Settings:
    """The settings of the control plane."""
    return Settings(
        state=settings.places.state,
        as_submitters=os.geteuid() == 0,
        boxed=settings.isolation == "bubblewrap",
        shared_account=settings.shared_account,
        environment=tuple((name, os.environ[name]) for name in INHERITED if name in os.environ),
        event_retention=settings.events_kept,
        job_retention=settings.jobs_kept,
        result_retention=settings.results_kept,
        artefact_retention=settings.artefacts_kept,
        cache_bytes=settings.artefact_cache,
        prices=settings.prices,
    )


def _start_loop(
    settings: ServerSettings,
    store: Store,
    source: DeviceSource,
    figures: Figures,
    brake: listen.Brake,
    stack: ExitStack,
) -> tuple[ControlLoop, Services]:
    """The engine, the control loop on its thread, and the services in front of them."""
    control = _control(settings)
    engine = LocalEngine(
        settings.places.state / "engine",
        source,
        boxes=_boxes(settings, control),
        secrets=SecretStore(control, store.users).values,
    )
    stack.callback(engine.close)
    recording = _recording(settings.record, stack)
    policy = policy_named(settings.policy)
    timed = figures.timed(decide)
    profiles = Profiles(store)
    loop = ControlLoop(
        store,
        engine,
        settings=control,
        decide=recording.of(timed) if recording else timed,
        snapshot=recording.snapshot(policy) if recording else Snapshot(policy=policy),
        profiles=profiles,
        on_stopped=brake.pull,
    )
    stack.callback(loop.close)
    vaults = loop.picture.vaults
    skipping = Skipping(
        store,
        holds=vaults.holds,
        near=lambda job: vaults.nearest(job, [node.id for node in loop.picture.nodes]),
        epoch=lambda: loop.pulse.epoch,
    )
    stack.callback(skipping.close)
    loop.picture.after.use_comparison(skipping.ask)  # before the loop meets a stage
    loop.start()
    skipping.start()
    profiling = _profiling(store, profiles, loop, stack)
    keeper = TagKeeper(store)
    watching = watch(settings, engine, loop, source, stack, facts=profiling.facts)
    profiling.watch(watching)
    keeper.watch(watching, lambda: holding(loop))
    loop.use_tags(watching.jobs)
    watching.start()
    forecaster = Forecaster(store, loop)
    stack.callback(forecaster.close)
    forecaster.start()
    insight = Insight(store, profiles, keeper, containers=False, clock=time.time)
    trials = Trials(store)
    services = Services(
        store,
        engine,
        loop,
        settings=control,
        forecaster=forecaster,
        watching=watching,
        insight=insight,
        trials=trials,
    )
    stack.callback(services.close)
    sweeper = Sweeper(store, loop, trials)
    stack.callback(sweeper.close)
    sweeper.start()
    collector = Collector(store, control, loop.picture.vaults)
    retention = Retention(store, engine, control, time.time, collector)
    stack.callback(retention.close)
    retention.start()
    return loop, services


def _profiling(store: Store, profiles: Profiles, loop: ControlLoop, stack: ExitStack) -> Profiling:
    """What jobs show is kept under their fingerprints; what became of each is kept for good."""
    results = ResultKeeper(store, profiles)
    stack.callback(results.close)
    results.start()
    profiling = Profiling(
        store,
        profiles,
        jobs=lambda: holding(loop),
        types=lambda: {device.id: device.type for node in loop.picture.nodes for device in node.devices},
        on_ended=results.ended,
    )
    stack.callback(profiling.close)
    profiling.start()
    return profiling


def _recording(path: Path | None, stack: ExitStack) -> Recording | None:
    """A record of all decisions, if one is wanted; each start of the server adds to it."""
    if path is None:
        return None
    try:
        # Unbuffered: a server that is killed leaves whole lines.
        file = stack.enter_context(path.open("ab", buffering=0))
    except OSError as error:
        raise BadInput(
            [Mistake("server.record", f"cannot be written: {error.strerror}", str(path))]
        ) from None
    left = max(0, MOST_BYTES - file.tell())
    return Recording(
        file.write, most=left, on_end=lambda why: log.warning("decisions are no longer recorded: %s", why)
    )


@contextmanager
def _announced(settings: ServerSettings, address: str) -> Iterator[None]:
    """server.json stands while the server answers."""
    path = settings.places.server_file
    told = {"address": address, "pid": os.getpid(), "started_at": time.time()}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(told) + "\n")
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _say(settings: ServerSettings, address: str, notice: str, users: Sequence[User], *, first: bool) -> None:
    """What the operator should know at each start."""
    _tell(f"Grus answers at {address}; its state is in {settings.places.state}.")
    if notice:
        _tell(notice)
    if first:  # never the token itself: what is printed here ends up in journals and captured output
        _tell(
            f"The token of the user admin is in {settings.places.token_file}; "
            "`grus` finds it there on this account."
        )
    for text in _warnings(settings, users):
        _tell(f"WARNING: {text}")


def _warnings(settings: ServerSettings, users: Sequence[User]) -> Iterator[str]:
    if settings.insecure_http and not settings.tls and not is_loopback(settings.host):
        yield "--insecure-http: tokens and jobs travel in the clear on the network."
    if exposed := isolation.exposure(_control(settings), users):
        yield exposed
    if os.geteuid() != 0 or not any(user.unix_user for user in users):
        return
    if (closed := _closed_folder(settings.places.state)) is not None:
        yield (
            f"jobs of other Unix users cannot pass {closed}, and so neither hear that they shall pause nor "
            "report how far they are. Give GRUS_HOME a place that they can pass."
        )


def _closed_folder(state: Path) -> Path | None:
    """The outermost folder on the way to the state that others than its owner cannot pass."""
    for folder in reversed((state, *state.parents)):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def _tell(text: str) -> None:
    log.info("%s", text)
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the operator's terminal
