"""Life of a server: take the state, open the resources, run, release. Jobs run before, between and after.

The order matters. The lock comes first, so that files that another server uses are not touched. The address
is announced last, when everything answers. At the end everything is released in the reverse order.
"""

import gc
import json
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grus
from grus.api.wire_types.pool import to_queue
from grus.controlplane.application_wiring import ControlPlane
from grus.controlplane.security import audit_records, isolation
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.settings import Settings
from grus.engines.local import fencing, sandbox
from grus.engines.local.cgroup_detection import find_groups
from grus.engines.local.engine import NO_CPU_LIMITS, LocalEngine
from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import QUEUES, USERS, Store, User
from grus.model.queues import DEFAULT_QUEUE, check_tree, pool_of_quotas
from grus.model.resources import GPU
from grus.scheduler.cycle import decide
from grus.scheduler.queues.policies import policy_named
from grus.scheduler.state.snapshot import Snapshot
from grus.sdk.connection_errors import is_loopback
from grus.server.app import Mount, create_app
from grus.server.config import ServerSettings, in_file, with_identity
from grus.server.http import listener
from grus.server.http.session_cookies import key_in
from grus.server.routes.dev_sessions import dev_app
from grus.server.runtime import device_inventory
from grus.server.runtime.first_start import ensure_admin
from grus.server.runtime.last_address import remember
from grus.server.runtime.lock import StateLock
from grus.server.runtime.log_files import log_to
from grus.server.runtime.notification_config import Channel, channels, secret_files
from grus.server.runtime.server_metrics import Figures
from grus.server.runtime.state_check import DATABASE, require
from grus.server.runtime.telemetry_sources import telemetry
from grus.server.runtime.unknown_names import unknown_names
from grus.server.session_proxy.session_access import OneTimeLinks, Origins
from grus.simulator.recorded.decision_recorder import MOST_BYTES, Recording
from grus.store.durable_files import PASSABLE, PRIVATE, closed_folder, make_state_folder, sync_folder
from grus.store.sqlite import SqliteStore
from grus.telemetry.device_provider import DeviceSource

log = logging.getLogger(__name__)

SWITCH = 0.001
"""Seconds after which a computing thread yields to another one: requests shall not wait for background
work.
"""
CONFIG_FILE = User(name=UserName("config.toml"))
"""Actor of changes that an edited file makes at a start, for the audit log."""
SELDOM = (50_000, 20, 1000)
"""Thresholds of the garbage collector: the new objects per search for cycles, and the rarity of searches
through old ones. Such a search takes a quarter of a second with 100,000 jobs, in which no request is
answered.
"""
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ")
"""Variables of the server's own environment that jobs see, unless they say otherwise."""


def serve(settings: ServerSettings, mount: Mount | None = None) -> int:
    """Run a server until it is asked to stop; the exit code. Raises GrusError if it cannot start.

    `mount` adds pages for people; without it there is the API alone.
    """
    os.umask(0o077)
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*SELDOM)
    settings = with_identity(settings, time.time())
    interface = listener.interface(settings.host)
    with ExitStack() as stack:
        _take_state(settings, stack)
        sock = listener.bind(interface, settings.port)
        stack.callback(sock.close)
        dev_sock = listener.bind_beside(interface, sock.getsockname()[1], settings.dev_port)
        stack.callback(dev_sock.close)
        require(settings.places.state)
        pool = device_inventory.choose(settings.pool, device_inventory.before(settings.places.state))
        store = SqliteStore(settings.places.state / DATABASE)
        stack.callback(store.close)
        device_inventory.remember(pool, settings.places.state)
        store.raise_epoch(fencing.highest(settings.places.state / "engine"))  # a restore may have broken off
        first = ensure_admin(store, settings.places.token_file, time.time()) is not None
        put_queues(store, settings, pool.source)
        log_unknown_names(store, settings)
        brake, figures = listener.Brake(), Figures()
        plane = _control_plane(settings, store, pool.source, figures, brake, stack)
        stack.callback(plane.close)
        plane.start()
        services = plane.services
        key = key_in(settings.places.state / "session.key")
        doorway = _doorway(settings, dev_sock)
        app = create_app(
            services,
            allowed_hosts=settings.hosts | {listener.local_host(sock)},
            allowed_origins=settings.allowed_origins,
            requests_per_second=settings.requests_per_second,
            pulse=plane.loop.pulse,
            figures=figures,
            mount=mount,
            session_key=key,
            doorway=doorway,
            gone=store.gone,
        )
        sessions = listener.SecondaryServer(
            dev_app(services, doorway, key), dev_sock, settings, **listener.SOCKETS
        )
        stack.callback(sessions.close)
        sessions.start()
        address = listener.address(sock, settings)
        sock.listen(listener.BACKLOG)  # from here on nobody who reads the address is refused
        _remember(settings, sock)
        stack.enter_context(_announced(settings, address, listener.local_address(sock, settings)))
        _say(settings, address, pool.notice, store.find(USERS), first=first)
        listener.run(app, sock, settings, brake)
        log.info("stopping; jobs go on")
    if brake.why:
        _tell(f"The server has stopped: {brake.why}")
    return 1 if brake.why else 0


def _doorway(settings: ServerSettings, sock: socket.socket) -> OneTimeLinks:
    scheme = "https" if settings.tls else "http"
    return OneTimeLinks(Origins(scheme, settings.session_host, sock.getsockname()[1]), time.monotonic)


def _take_state(settings: ServerSettings, stack: ExitStack) -> None:
    state = settings.places.state
    make_state_folder(state)
    sync_folder(state.parent)  # no matter which process made it
    state.chmod(PASSABLE if os.geteuid() == 0 else PRIVATE)  # an earlier version may have made it
    lock = StateLock(settings.places.lock_file)
    lock.take()
    stack.callback(lock.release)
    handler = log_to(settings.places.log_file)
    stack.callback(handler.close)
    stack.callback(logging.getLogger().removeHandler, handler)


def put_queues(store: Store, settings: ServerSettings, source: DeviceSource) -> None:
    """The queues of config.toml are as it says at every start; those made by hand stay."""
    given = {name: to_queue(name, queue) for name, queue in settings.queues}
    if not given:
        return
    pool = GPU * sum(len(node.devices) for node in source.nodes(()))
    before = {queue.name: queue for queue in store.find(QUEUES)}
    merged = before | {queue.name: queue for queue in given.values()}
    tree = [queue for queue in merged.values() if queue.name != DEFAULT_QUEUE]
    # One GPU less must not keep the server down.
    if mistakes := check_tree(tree, pool_of_quotas(pool, before.values(), tree)):
        raise in_file(settings.places, mistakes)
    for queue in given.values():
        if queue != (old := before.get(queue.name)):
            record = audit_records.queue_set(CONFIG_FILE, time.time(), old, queue)
            store.put(QUEUES, queue, record=record).result()


def log_unknown_names(store: Store, settings: ServerSettings) -> None:
    """Log users and queues of config.toml that do not exist."""
    users = {user.name for user in store.find(USERS)}
    for text in unknown_names(settings, users, {queue.name for queue in store.find(QUEUES)}):
        log.warning("%s: %s", settings.places.config_file, text)


def _boxes(settings: ServerSettings, control: Settings) -> sandbox.SandboxSettings | None:
    if settings.isolation != "bubblewrap":
        return None
    program = shutil.which(sandbox.PROGRAM)
    if (why := sandbox.trouble(program)) or program is None:
        rule = f'cannot be "bubblewrap" here ({why}); mend that, or set it to "processes"'
        raise in_file(settings.places, [Mistake("server.isolation", rule)])
    at = settings.places
    named = (at.token_file, at.config_file, settings.key, *secret_files(settings.notifications, at.config))
    secrets = tuple(path for path in named if path is not None)
    installed = (Path(sys.prefix), Path(grus.__file__).parent)
    return sandbox.SandboxSettings(
        program,
        at.state.absolute(),
        control.code.absolute(),
        secrets,
        same_user=not control.as_submitters,
        writable=settings.writable,
        settings=at.config.absolute(),
        protected=installed,
    )


def _channels(settings: ServerSettings) -> tuple[Channel, ...]:
    try:
        return channels(settings.notifications, settings.places.config)
    except BadInput as error:
        raise in_file(settings.places, error.mistakes) from None


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
        configured_queues=frozenset(QueueName(name) for name, _ in settings.queues),
    )


def _control_plane(
    settings: ServerSettings,
    store: Store,
    source: DeviceSource,
    figures: Figures,
    brake: listener.Brake,
    stack: ExitStack,
) -> ControlPlane:
    """Build the engine and the control plane, which is not started yet."""
    control = _control(settings)
    engine = LocalEngine(
        settings.places.state / "engine",
        source,
        boxes=_boxes(settings, control),
        secrets=SecretStore(control, lambda: store.find(USERS)).values,
        cpu=find_groups() if settings.cpu_limits else NO_CPU_LIMITS,
    )
    stack.callback(engine.close)
    recording = _recording(settings.record, stack)
    policy = policy_named(settings.policy)
    timed = figures.timed(decide)
    return ControlPlane(
        store,
        engine,
        control,
        telemetry(settings, engine, source, stack),
        decide=recording.of(timed) if recording else timed,
        snapshot=recording.snapshot(policy) if recording else Snapshot(policy=policy),
        channels=_channels(settings),
        on_stopped=brake.pull,
    )


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


def _remember(settings: ServerSettings, sock: socket.socket) -> None:
    """Keep the address for the next start on this state."""
    port = sock.getsockname()[1]
    remember(
        settings.places, port=port, host=settings.host, certificate=settings.certificate, key=settings.key
    )


@contextmanager
def _announced(settings: ServerSettings, address: str, local: str) -> Iterator[None]:
    """server.json stands while the server answers."""
    path = settings.places.server_file
    told: dict[str, object] = {"address": address, "pid": os.getpid(), "started_at": time.time()}
    if local != address:
        told["local"] = local
    if settings.identity is not None:
        told["certificate"] = settings.identity.pem
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(told) + "\n")
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _say(settings: ServerSettings, address: str, notice: str, users: Sequence[User], *, first: bool) -> None:
    """Print the facts that the operator should know at each start."""
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
    if (closed := closed_folder(settings.places.state)) is not None:
        yield (
            f"jobs of other Unix users cannot pass {closed}, and so neither hear that they shall pause nor "
            "report how far they are. Give GRUS_HOME a place that they can pass."
        )


def _tell(text: str) -> None:
    log.info("%s", text)
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the operator's terminal
