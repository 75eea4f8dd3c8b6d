"""Server settings: config.toml, then the command line. Read once at start; never written.

    [server]                     [queues.vision]      [retention]          [client]
    host = "127.0.0.1"           quota = 4            events = "90d"       server = "https://…"
    port = 7600                  reserved = 1         jobs = "365d"        token = "…"
    dev_port = 7601
    pool = "virtual 2x4x16GB"    weight = 2
    certificate = "tls.crt"
    key = "tls.key"
    policy = "grus"
    record = "decisions.jsonl"

    [artefacts]                  # artifacts of jobs: time after their last use, and bytes of the cache
    kept = "30d"
    cache = "50GB"

    [telemetry]                  # also `seconds`, `minutes` and `ten_minutes`, as `fine`
    hz = 1
    size = "1GB"
    fine = "1h"
    dcgm = ["http://node1:9400/metrics"]        # or prometheus = "http://prometheus:9090"

Every error of the file is reported at once, with its place. `[client]` is read by the SDK;
`notification_config` describes `[notifications]`.
"""

import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from grus.api.parsing.validation_errors import Strict, read
from grus.api.wire_types.pool import QueueIn
from grus.model.errors import BadInput, Mistake
from grus.model.prices import NO_PRICES, Prices
from grus.model.texts.units import parse_bytes, parse_seconds
from grus.scheduler.queues.policies import GRUS, POLICIES
from grus.sdk.bounded_read import LARGEST_SETTINGS, read_text
from grus.sdk.connection_errors import is_loopback
from grus.sdk.state_paths import GrusPaths
from grus.server.runtime.last_address import ListenAddress, recall
from grus.server.runtime.notification_config import NotificationsIn
from grus.server.runtime.tls_certificate import Certificate, read_certificate
from grus.telemetry.tsdb import Keep

DEFAULT_PORT = 7600
SMALLEST = 10_000_000
"""Bytes of the telemetry's file: below, its tiers would not hold one block each."""
AUTO_POOL = "auto"
"""The GPUs of this machine (NVML), or the virtual pool of the last start."""


def _span(value: str | int | float) -> float:
    return parse_seconds(value)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address, such as http://node1:9400/metrics")
    return text


Url = Annotated[str, AfterValidator(_url)]


def _size(value: str | int) -> int:
    size = parse_bytes(value)
    if size < SMALLEST:
        raise ValueError("must be at least 10 MB")
    return size


Size = Annotated[str | int, AfterValidator(_size)]
"""Bytes, as people write them."""
Span = Annotated[str | int | float, AfterValidator(_span)]
"""A length of time, as people write it; read as seconds."""


def _policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"must be one of {', '.join(POLICIES)}")
    return name


PolicyName = Annotated[str, AfterValidator(_policy)]


class ServerIn(Strict):
    """`[server]`"""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    dev_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    dev_host: str = ""
    pool: str = AUTO_POOL
    isolation: Literal["processes", "bubblewrap"] = "processes"
    cpu_limits: bool = True
    writable: tuple[str, ...] = ("~/.cache",)
    shared_account: bool = False
    policy: PolicyName = GRUS.name
    certificate: str = ""
    key: str = ""
    insecure_http: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    requests_per_second: Annotated[float, Field(gt=0)] = 2000.0
    record: str = ""


class RetentionIn(Strict):
    """`[retention]`"""

    events: Span = 90 * 86400.0
    jobs: Span = 365 * 86400.0
    results: Span = 5 * 365 * 86400.0


class ArtefactsIn(Strict):
    """`[artefacts]`"""

    kept: Span = 30 * 86400.0
    cache: Size = 50 << 30


class TelemetryIn(Strict):
    """`[telemetry]`"""

    hz: Annotated[float, Field(ge=0.1, le=10)] = 1.0
    size: Size | None = None
    fine: Span | None = None
    seconds: Span | None = None
    minutes: Span | None = None
    ten_minutes: Span | None = None
    dcgm: tuple[Url, ...] | dict[Url, str] = ()
    prometheus: Url | None = None
    prometheus_select: str = ""
    node_label: str = ""


Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class PricesIn(Strict):
    """`[prices]`"""

    currency: Annotated[str, Field(max_length=16)] = ""
    gpu_hour: Price | None = None
    types: dict[str, Price] = Field(default_factory=dict)
    kwh: Price | None = None


class ConfigIn(Strict):
    """The whole file."""

    server: ServerIn = ServerIn()
    telemetry: TelemetryIn = TelemetryIn()
    queues: dict[str, QueueIn] = Field(default_factory=dict)
    retention: RetentionIn = RetentionIn()
    artefacts: ArtefactsIn = ArtefactsIn()
    prices: PricesIn = PricesIn()
    notifications: NotificationsIn = NotificationsIn()
    client: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """All settings of a server."""

    places: GrusPaths
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    dev_port: int | None = None
    """Port of development sessions; None for the next one that is free, 0 for any."""
    dev_host: str = ""
    """The name under which they are: one of their own keeps their cookies apart; `*.` in front, each its own.
    Empty for names under `localhost` on this machine alone, and for the server's own name elsewhere."""
    pool: str = AUTO_POOL
    isolation: str = "processes"
    """Or `bubblewrap`: each worker in a box of its own."""
    cpu_limits: bool = True
    """Limit jobs to the CPU that they ask for, where control groups allow it."""
    writable: tuple[Path, ...] = ()
    """Folders that jobs in boxes can write to where they have the server's own Unix user."""
    shared_account: bool = False
    """Several people may submit though their jobs are not isolated from each other."""
    policy: str = GRUS.name
    """Policy that chooses the next job in a queue and the job that grows: a name of
    `grus.scheduler.queues.policies`.
    """
    certificate: Path | None = None
    key: Path | None = None
    identity: Certificate | None = None
    """Facts of the certificate, once `with_identity` has read it."""
    insecure_http: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Names besides the host and those of the certificate under which clients may ask."""
    allowed_origins: tuple[str, ...] = ()
    requests_per_second: float = 2000.0
    queues: tuple[tuple[str, QueueIn], ...] = ()
    events_kept: float = 90 * 86400.0
    """Seconds."""
    jobs_kept: float = 365 * 86400.0
    """Seconds after a job's end."""
    results_kept: float = 5 * 365 * 86400.0
    """Likewise; what is kept of a job never goes before the job."""
    artefacts_kept: float = 30 * 86400.0
    """Seconds after the last use of what an ended job left behind."""
    artefact_cache: int = 50 << 30
    """Bytes of artifacts as files for jobs to read, on each node and for each user."""
    hz: float = 1.0
    """Samples a second of what workers and GPUs do."""
    keep: Keep = field(default_factory=Keep)
    """Retention time and maximum size in bytes."""
    dcgm: tuple[tuple[str, str], ...] = ()
    """Pages of DCGM exporters, each with its node ("" for the one that the page names)."""
    prometheus: str = ""
    """Address of one that scrapes such exporters."""
    prometheus_select: str = ""
    node_label: str = ""
    prices: Prices = NO_PRICES
    """Prices of GPU-hours and energy, for reports."""
    notifications: NotificationsIn = field(default_factory=NotificationsIn)
    """Receivers of messages about jobs."""
    record: Path | None = None
    """File in which the scheduler's inputs and decisions are recorded; for `grus simulate --replay`."""

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    @property
    def hosts(self) -> frozenset[str]:
        """Names under which the server may be asked."""
        own = {"127.0.0.1", "localhost", "[::1]"} if is_loopback(self.host) else {_as_host(self.host)}
        certified = self.identity.hosts if self.identity else ()
        return frozenset({*own, *self.allowed_hosts, *map(_as_host, certified)})

    @property
    def public_host(self) -> str:
        """The name under which other machines ask, as it stands in an address."""
        if not is_wildcard(self.host):
            return _as_host(self.host)
        certified = self.identity.hosts if self.identity else ()
        return next(iter((*self.allowed_hosts, *map(_as_host, certified))), "localhost")

    @property
    def session_host(self) -> str:
        """The name for development sessions; see `dev_host`."""
        if self.dev_host:
            return self.dev_host
        if is_loopback(self.host) and not self.tls:
            return "*.localhost"
        return self.public_host


def load(at: GrusPaths, **given: Any) -> ServerSettings:
    """The settings of config.toml (all defaults if there is none), overridden by those given and not None."""
    try:
        data = tomllib.loads(read_text(at.config_file, LARGEST_SETTINGS))
    except FileNotFoundError:
        data = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput([Mistake(str(at.config_file), f"is not TOML: {error}")]) from None
    config = _read(at, data)
    settings = _settings(at, config, _with_remembered(config.server, given, recall(at)))
    if mistakes := [*_pair_mistakes(settings, given), *posture_mistakes(settings)]:
        raise BadInput(mistakes)
    return settings


def _with_remembered(
    server: ServerIn, given: Mapping[str, Any], last: ListenAddress | None
) -> Mapping[str, Any]:
    """The settings given, and the address of the last start where neither they nor the file name one."""
    told = server.model_fields_set | {name for name, value in given.items() if value is not None}
    if last is None:
        return given
    found = dict(given) if "port" in told else {**given, "port": last.port}
    if last.host and not told & {"host", "insecure_http"}:
        found["host"] = last.host
        if not told & {"certificate", "key"}:
            found |= {"certificate": Path(last.certificate), "key": Path(last.key)}
    return found


def with_identity(settings: ServerSettings, now: float) -> ServerSettings:
    """The settings with the facts of their certificate. Raises BadInput if clients would refuse it."""
    if settings.certificate is None or settings.key is None:
        return settings
    identity = read_certificate(settings.certificate, settings.key, now)
    if is_wildcard(settings.host):
        if not identity.hosts and not settings.allowed_hosts:
            rule = f"names only {', '.join(identity.names)}: name this server with --host NAME"
            raise BadInput([Mistake("--tls-cert", rule, str(settings.certificate))])
    elif not is_loopback(settings.host) and not identity.covers(settings.host):
        rule = (
            f"is not among the names of the certificate {settings.certificate} "
            f"({', '.join(identity.names)}): "
            "clients would refuse it; use one of those, or make a certificate with this name"
        )
        raise BadInput([Mistake("--host", rule, settings.host)])
    return replace(settings, identity=identity)


def _read(at: GrusPaths, data: Mapping[str, Any]) -> ConfigIn:
    try:
        return read(ConfigIn, data, whole="")
    except BadInput as error:
        raise in_file(at, error.mistakes) from None


def in_file(at: GrusPaths, mistakes: Iterable[Mistake]) -> BadInput:
    """Add the file's name to errors of config.toml: a machine may have several."""
    file = str(at.config_file)
    return BadInput([replace(m, field=f"{file}: {m.field}" if m.field else file) for m in mistakes])


def _settings(at: GrusPaths, config: ConfigIn, given: Mapping[str, Any]) -> ServerSettings:
    server = config.server
    found: dict[str, Any] = {
        **server.model_dump(),
        "certificate": _path(server.certificate, at),
        "key": _path(server.key, at),
        "record": _path(server.record, at),
        "writable": tuple(path for text in server.writable if (path := _path(text, at)) is not None),
        "allowed_hosts": tuple(server.allowed_hosts),
        "allowed_origins": tuple(server.allowed_origins),
        "queues": tuple(config.queues.items()),
        "events_kept": config.retention.events,
        "jobs_kept": config.retention.jobs,
        "results_kept": config.retention.results,
        "artefacts_kept": config.artefacts.kept,
        "artefact_cache": config.artefacts.cache,
        "prices": _prices(config.prices),
        "notifications": config.notifications,
        "hz": config.telemetry.hz,
        "keep": _keep(config.telemetry),
        "dcgm": _exporters(config.telemetry.dcgm),
        "prometheus": config.telemetry.prometheus or "",
        "prometheus_select": config.telemetry.prometheus_select,
        "node_label": config.telemetry.node_label,
    }
    found.update({name: value for name, value in given.items() if value is not None})
    return ServerSettings(places=at, **found)


def _prices(told: PricesIn) -> Prices:
    types = tuple(sorted(told.types.items()))
    return Prices(currency=told.currency, gpu_hour=told.gpu_hour, types=types, kwh=told.kwh)


def _keep(told: TelemetryIn) -> Keep:
    kept = {"size", "fine", "seconds", "minutes", "ten_minutes"}
    given = told.model_dump(exclude_none=True, include=kept)
    return Keep(**{"tens" if name == "ten_minutes" else name: value for name, value in given.items()})


def _exporters(told: tuple[str, ...] | dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(told.items()) if isinstance(told, dict) else tuple((url, "") for url in told)


def _path(text: str, at: GrusPaths) -> Path | None:
    """A path of the file, relative to the file's folder."""
    return at.config / Path(text).expanduser() if text else None


def _pair_mistakes(settings: ServerSettings, given: Mapping[str, Any]) -> list[Mistake]:
    """A certificate without its key, or a key without its certificate; named as it was given."""
    if (settings.certificate is None) == (settings.key is None):
        return []
    options = given.get("certificate") is not None or given.get("key") is not None
    certificate, key = ("--tls-cert", "--tls-key") if options else ("server.certificate", "server.key")
    missing, there = (certificate, key) if settings.certificate is None else (key, certificate)
    return [Mistake(missing, f"is missing: it belongs together with {there}; give both")]


def posture_mistakes(settings: ServerSettings) -> list[Mistake]:
    """Return settings that would make the server easier to reach than its owner intends."""
    found = []
    if not is_loopback(settings.host) and not settings.tls and not settings.insecure_http:
        rule = (
            "other machines can reach this address: give --tls-cert and --tls-key for TLS, "
            "or --insecure-http to send tokens and jobs in the clear"
        )
        found.append(Mistake("server.host", rule, settings.host))
    if is_wildcard(settings.host) and not settings.allowed_hosts and not settings.tls:
        rule = (
            "must name (in config.toml) the hosts under which clients ask, when the server listens on every "
            "address without TLS; or name one with --host"
        )
        found.append(Mistake("server.allowed_hosts", rule))
    return found


def is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def _as_host(address: str) -> str:
    """An address as it stands in a Host header."""
    return f"[{address}]" if ":" in address else address
