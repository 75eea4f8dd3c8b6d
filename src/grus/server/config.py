"""What a server is told: config.toml, then the command line. Read once at start; never written.

    [server]                     [queues.vision]      [retention]          [client]
    host = "127.0.0.1"           quota = 4            events = "90d"       server = "https://…"
    port = 7600                  reserved = 1         jobs = "365d"        token = "…"
    dev_port = 7601
    pool = "virtual 2x4x16GB"    weight = 2
    policy = "grus"
    record = "decisions.jsonl"

    [artefacts]                  # what jobs leave behind: how long after its last use, and bytes of the cache
    kept = "30d"
    cache = "50GB"

    [telemetry]                  # also `seconds`, `minutes` and `ten_minutes`, as `fine`
    hz = 1
    size = "1GB"
    fine = "1h"
    dcgm = ["http://node1:9400/metrics"]        # or prometheus = "http://prometheus:9090"

Every mistake of the file is told at once, with its place. `[client]` is read by the SDK.
"""

import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from grus.api.rules import Strict, read
from grus.api.units import parse_bytes, parse_seconds
from grus.api.wire import QueueIn
from grus.model.errors import BadInput, Mistake
from grus.model.prices import NO_PRICES, Prices
from grus.scheduling.policies import GRUS, POLICIES
from grus.sdk.bounded import LARGEST_SETTINGS, read_text
from grus.sdk.places import Places
from grus.telemetry.recorder import Keep

DEFAULT_PORT = 7600
SMALLEST = 10_000_000
"""Bytes of the telemetry's file: below, its tiers would not hold one block each."""
AUTO_POOL = "auto"
"""NVML if there are GPUs, else a small virtual pool."""


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
    client: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything that a server is told."""

    places: Places
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    dev_port: int | None = None
    """Where development sessions are reached; None for the next one that is free, 0 for any."""
    dev_host: str = ""
    """The name under which they are: one of their own keeps their cookies apart; `*.` in front, each its own.
    Empty for names under `localhost` on this machine alone, and for the server's own name elsewhere."""
    pool: str = AUTO_POOL
    isolation: str = "processes"
    """Or `bubblewrap`: each worker in a box of its own."""
    writable: tuple[Path, ...] = ()
    """Folders that jobs in boxes can write to where they have the server's own Unix user."""
    shared_account: bool = False
    """Several people may submit though their jobs are not isolated from each other."""
    policy: str = GRUS.name
    """Who is next in a queue and who grows: a name of `grus.scheduling.policies`."""
    certificate: Path | None = None
    key: Path | None = None
    insecure_http: bool = False
    allowed_hosts: tuple[str, ...] = ()
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
    """Bytes of artefacts as files for jobs to read, on each node and for each user."""
    hz: float = 1.0
    """Samples a second of what workers and GPUs do."""
    keep: Keep = field(default_factory=Keep)
    """How long, and in how many bytes, they are kept."""
    dcgm: tuple[tuple[str, str], ...] = ()
    """Pages of DCGM exporters, each with its node ("" for the one that the page names)."""
    prometheus: str = ""
    """Address of one that scrapes such exporters."""
    prometheus_select: str = ""
    node_label: str = ""
    prices: Prices = NO_PRICES
    """What GPU-hours and energy cost, for reports."""
    record: Path | None = None
    """Where what the scheduler is told and what it decides is written down; for `grus simulate --replay`."""

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    @property
    def hosts(self) -> frozenset[str]:
        """Names under which the server may be asked."""
        own = {"127.0.0.1", "localhost", "[::1]"} if is_loopback(self.host) else {_as_host(self.host)}
        return frozenset({*own, *self.allowed_hosts})

    @property
    def session_host(self) -> str:
        """The name for development sessions; see `dev_host`."""
        if self.dev_host:
            return self.dev_host
        if is_loopback(self.host) and not self.tls:
            return "*.localhost"
        return self.allowed_hosts[0] if is_wildcard(self.host) else _as_host(self.host)


def load(at: Places, **given: Any) -> ServerSettings:
    """The settings of config.toml (all defaults if there is none), overridden by those given and not None."""
    try:
        data = tomllib.loads(read_text(at.config_file, LARGEST_SETTINGS))
    except FileNotFoundError:
        data = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput([Mistake(str(at.config_file), f"is not TOML: {error}")]) from None
    settings = _settings(at, _read(at, data), given)
    if mistakes := posture_mistakes(settings):
        raise BadInput(mistakes)
    return settings


def _read(at: Places, data: Mapping[str, Any]) -> ConfigIn:
    try:
        return read(ConfigIn, data, whole="")
    except BadInput as error:
        raise in_file(at, error.mistakes) from None


def in_file(at: Places, mistakes: Iterable[Mistake]) -> BadInput:
    """Mistakes of config.toml with the file that they are in: a machine may have several."""
    file = str(at.config_file)
    return BadInput([replace(m, field=f"{file}: {m.field}" if m.field else file) for m in mistakes])


def _settings(at: Places, config: ConfigIn, given: Mapping[str, Any]) -> ServerSettings:
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


def _path(text: str, at: Places) -> Path | None:
    """A path of the file, relative to the file's folder."""
    return at.config / Path(text).expanduser() if text else None


def posture_mistakes(settings: ServerSettings) -> list[Mistake]:
    """What would make the server easier to reach than its owner meant."""
    found = []
    if (settings.certificate is None) != (settings.key is None):
        rule = "--tls-cert and --tls-key (here server.certificate and server.key) belong together: give both"
        found.append(Mistake("server.certificate", rule))
    if not is_loopback(settings.host) and not settings.tls and not settings.insecure_http:
        rule = (
            "other machines can reach this address: give --tls-cert and --tls-key for TLS, "
            "or --insecure-http to send tokens and jobs in the clear"
        )
        found.append(Mistake("server.host", rule, settings.host))
    if is_wildcard(settings.host) and not settings.allowed_hosts:
        rule = (
            "must name (in config.toml) the hosts under which clients ask, when the address is every address"
        )
        found.append(Mistake("server.allowed_hosts", rule))
    return found


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def _as_host(address: str) -> str:
    """An address as it stands in a Host header."""
    return f"[{address}]" if ":" in address else address
