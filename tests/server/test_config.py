"""What config.toml may say, and that a server is never easier to reach than its owner meant."""

from pathlib import Path

import pytest

from grus.controlplane.notifications.messages import EVENTS
from grus.model.errors import BadInput
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import AUDIT, QUEUES, USERS, User
from grus.model.prices import Prices
from grus.model.queues import Queue
from grus.sdk.state_paths import GrusPaths, places
from grus.server.config import load
from grus.server.main import log_unknown_names, put_queues
from grus.server.runtime.last_address import FILE, recall, remember
from grus.server.runtime.notification_config import WebhookIn, channels
from grus.server.runtime.unknown_names import unknown_names
from grus.store.memory import MemoryStore
from grus.telemetry.tsdb import Keep
from grus.telemetry.virtual_gpus import VirtualSource


@pytest.fixture
def at(tmp_path: Path) -> GrusPaths:
    return places({"GRUS_HOME": str(tmp_path)})


def fields(caught: pytest.ExceptionInfo[BadInput]) -> list[str]:
    return [mistake.field for mistake in caught.value.mistakes]


def test_without_a_file_the_server_is_for_this_machine_only(at: GrusPaths) -> None:
    settings = load(at)
    assert (settings.host, settings.port, settings.tls) == ("127.0.0.1", 7600, False)
    assert settings.hosts == {"127.0.0.1", "localhost", "[::1]"}


def test_the_file_is_read_and_the_command_line_goes_before_it(at: GrusPaths) -> None:
    at.config_file.write_text(
        '[server]\nport = 1\npool = "virtual 2x4x16GB"\n'
        '[queues.vision]\nquota = 4\n[retention]\nevents = "2d"\nresults = "3d"\n'
    )
    settings = load(at, port=2, host=None)
    assert (settings.port, settings.pool, settings.events_kept) == (2, "virtual 2x4x16GB", 2 * 86400)
    assert settings.results_kept == 3 * 86400
    assert [(name, queue.quota) for name, queue in settings.queues] == [("vision", 4)]


def test_a_changed_queue_of_the_file_is_in_the_audit_log_once(at: GrusPaths) -> None:
    store, pool = MemoryStore(), VirtualSource("1x8x16GB")
    for quota in (4, 4, 5):
        at.config_file.write_text(f"[queues.vision]\nquota = {quota}\n")
        put_queues(store, load(at), pool)
    records = [(one.actor, one.action, one.target) for one in store.find(AUDIT)]
    assert records == [("config.toml", "queue.set", "vision")] * 2


UNKNOWN = """
[queues.robots]
members = ["zed", "ada"]
[[notifications.webhook]]
name = "ops"
url = "https://hooks.example.org/grus"
secret = "0123456789abcdef"
users = ["adaa"]
queues = ["robots", "vison", "default"]
[notifications.email]
host = "mail.example.org"
sender = "grus@example.org"
owners = {bob = "bob@example.org"}
"""


def test_names_of_the_file_that_nobody_has_are_told_and_logged(
    at: GrusPaths, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.put(USERS, User(name=UserName("ada")))
    store.put(QUEUES, Queue(name=QueueName("vision")))
    at.config_file.write_text(UNKNOWN)
    found = unknown_names(load(at), {"ada"}, {"vision"})
    assert found == (
        '[queues.robots] members: there is no user "zed"; `grus user set zed` adds one',
        '[[notifications.webhook]] ops: users: there is no user "adaa"; did you mean "ada"?',
        '[[notifications.webhook]] ops: queues: there is no queue "vison"; did you mean "vision"?',
        '[notifications.email] owners: there is no user "bob"; `grus user set bob` adds one',
    )
    log_unknown_names(store, load(at))
    assert caplog.messages == [f"{at.config_file}: {text}" for text in found]


def test_every_mistake_of_the_file_is_told_at_once(at: GrusPaths) -> None:
    at.config_file.write_text(
        '[server]\nport = 70000\nprot = 1\n[queues.a]\nquota = -1\n[retention]\njobs = "x"\n'
    )
    with pytest.raises(BadInput) as caught:
        load(at)
    found = ["queues.a.quota", "retention.jobs", "server.port", "server.prot"]
    assert sorted(fields(caught)) == [f"{at.config_file}: {name}" for name in found]


def test_how_often_is_measured_and_how_long_it_is_kept_can_be_set(at: GrusPaths) -> None:
    assert (load(at).hz, load(at).keep) == (1.0, Keep())
    at.config_file.write_text('[telemetry]\nhz = 10\nsize = "2GB"\nminutes = "30d"\nten_minutes = "2y"\n')
    with pytest.raises(BadInput) as caught:
        load(at)
    assert fields(caught) == [f"{at.config_file}: telemetry.ten_minutes"]
    at.config_file.write_text('[telemetry]\nhz = 10\nsize = "2GB"\nminutes = "30d"\n')
    assert load(at).keep == Keep(size=2_000_000_000, minutes=30 * 86_400)
    at.config_file.write_text('[telemetry]\nhz = 20\nsize = "1MB"\n')
    with pytest.raises(BadInput) as caught:
        load(at)
    assert fields(caught) == [f"{at.config_file}: telemetry.{name}" for name in ("hz", "size")]


def test_exporters_are_named_with_or_without_their_nodes(at: GrusPaths) -> None:
    at.config_file.write_text('[telemetry]\ndcgm = ["http://a:9400/metrics"]\nprometheus = "prom:9090"\n')
    with pytest.raises(BadInput, match="must be an address") as caught:
        load(at)
    assert fields(caught) == [f"{at.config_file}: telemetry.prometheus"]
    at.config_file.write_text('[telemetry]\ndcgm = ["http://a:9400/metrics"]\nnode_label = "host"\n')
    assert load(at).dcgm == (("http://a:9400/metrics", ""),)
    at.config_file.write_text('[telemetry.dcgm]\n"http://a:9400/metrics" = "node-a"\n')
    assert load(at).dcgm == (("http://a:9400/metrics", "node-a"),)


def test_a_file_that_is_no_toml_is_told_with_its_path(at: GrusPaths) -> None:
    at.config_file.write_text("[server")
    with pytest.raises(BadInput, match=r"config\.toml"):
        load(at)


def test_another_address_needs_tls_or_an_explicit_word(at: GrusPaths) -> None:
    with pytest.raises(BadInput, match="insecure-http") as caught:
        load(at, host="10.0.0.1")
    assert fields(caught) == ["server.host"]
    assert load(at, host="10.0.0.1", insecure_http=True).hosts == {"10.0.0.1"}
    assert load(at, host="10.0.0.1", certificate=Path("/c"), key=Path("/k")).tls


def test_every_address_needs_the_names_under_which_clients_ask(at: GrusPaths) -> None:
    with pytest.raises(BadInput) as caught:
        load(at, host="0.0.0.0", insecure_http=True)
    assert fields(caught) == ["server.allowed_hosts"]


def test_a_certificate_needs_its_key(at: GrusPaths) -> None:
    with pytest.raises(BadInput, match="--tls-key: is missing: it belongs together with --tls-cert"):
        load(at, certificate=Path("/c"))
    at.config_file.write_text('[server]\nkey = "k"\n')
    with pytest.raises(BadInput, match=r"server\.certificate: is missing: .* server\.key"):
        load(at)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(at: GrusPaths, host: str) -> None:
    assert load(at, host=host).host == host


def test_the_policy_is_one_of_those_that_there_are(at: GrusPaths) -> None:
    at.config_file.write_text('[server]\npolicy = "srtf"\n')
    assert load(at).policy == "srtf"
    at.config_file.write_text('[server]\npolicy = "best"\n')
    with pytest.raises(BadInput, match="fifo, fair, srtf, tiresias, optimus, grus"):
        load(at)


def test_prices_are_what_the_owner_says_and_nothing_is_guessed(at: GrusPaths) -> None:
    assert load(at).prices == Prices()
    at.config_file.write_text(
        '[prices]\ncurrency = "EUR"\ngpu_hour = 1.5\nkwh = 0.3\n[prices.types]\nH100 = 4\n'
    )
    found = load(at).prices
    assert (found.of("H100"), found.of("A100"), found.kwh, found.currency) == (4.0, 1.5, 0.3, "EUR")
    at.config_file.write_text("[prices]\ngpu_hour = -1\nkwh = inf\n")
    with pytest.raises(BadInput) as caught:
        load(at)
    assert fields(caught) == [f"{at.config_file}: prices.{name}" for name in ("gpu_hour", "kwh")]


def test_the_port_of_the_last_start_holds_until_another_is_named(at: GrusPaths) -> None:
    remember(at, port=7700, host="127.0.0.1", certificate=None, key=None)
    assert (load(at).port, load(at).host) == (7700, "127.0.0.1")
    assert load(at, port=7800).port == 7800
    at.config_file.write_text("[server]\nport = 7900\n")
    assert load(at).port == 7900


def test_host_and_certificate_of_the_last_start_hold_together_until_one_is_named(at: GrusPaths) -> None:
    remember(at, port=7700, host="gpu.lab", certificate=Path("/c"), key=Path("/k"))
    found = load(at)
    assert (found.host, found.certificate, found.key, found.port) == ("gpu.lab", Path("/c"), Path("/k"), 7700)
    assert (load(at, host="127.0.0.1").host, load(at, host="127.0.0.1").tls) == ("127.0.0.1", False)
    at.config_file.write_text('[server]\nhost = "127.0.0.1"\n')
    assert not load(at).tls


def test_a_new_certificate_keeps_host_and_port(at: GrusPaths) -> None:
    remember(at, port=7700, host="gpu.lab", certificate=Path("/c"), key=Path("/k"))
    found = load(at, certificate=Path("/new"), key=Path("/newkey"))
    assert (found.host, found.port, found.certificate, found.key) == (
        "gpu.lab",
        7700,
        Path("/new"),
        Path("/newkey"),
    )


def test_a_host_without_tls_is_not_remembered(at: GrusPaths) -> None:
    remember(at, port=7700, host="10.0.0.5", certificate=None, key=None)
    assert load(at).host == "127.0.0.1"


@pytest.mark.parametrize("text", ["", "[]", '{"port": "x"}', '{"port": 70000}', '{"port": 0}', "{"])
def test_a_damaged_memory_of_the_last_start_is_no_memory(at: GrusPaths, text: str) -> None:
    at.state.mkdir()
    (at.state / FILE).write_text(text)
    assert recall(at) is None
    assert load(at).port == 7600


HOOK = '[[notifications.webhook]]\nname = "ops"\nurl = "https://hooks.example.org/t0p-path"\n'
SECRET = "t0p-secret-of-many-letters"


def made(at: GrusPaths, text: str) -> list[str]:
    at.config_file.write_text(text)
    found = channels(load(at).notifications, at.config)
    for sender, _ in found:
        sender.close()
    return [f"{sender.name} {sender.target} {sorted(wants.events)}" for sender, wants in found]


def test_receivers_of_notifications_are_read_with_their_secrets(at: GrusPaths) -> None:
    (at.config / "hook.secret").write_text(f"{SECRET}\n")
    text = f'{HOOK}secret_file = "hook.secret"\nevents = ["failure", "hang"]\n' + (
        '[notifications.email]\nhost = "mail.example.org"\nsender = "grus@example.org"\n'
        'to = ["ops@example.org"]\nowners = {ada = "ada@example.org"}\nevents = ["end"]\n'
    )
    assert made(at, text) == [
        "ops hooks.example.org ['failure', 'hang']",
        "email mail.example.org:587 ['end']",
    ]
    assert SECRET not in repr(load(at))
    assert WebhookIn(name="a", url="x").events == tuple(EVENTS)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (HOOK, "webhook[0].secret"),
        (f'{HOOK}secret = "t0p"\n', "webhook[0].secret"),
        (f"{HOOK}secret = 5\n", "webhook[0].secret"),
        (f'{HOOK}secret_file = "missing"\n', "webhook[0].secret"),
        (f'{HOOK}secret = "{SECRET}"\nsecret_file = "x"\n', "webhook[0].secret"),
        (f'{HOOK}secret = "{SECRET}"\nevents = ["start"]\n', "webhook[0].events[0]"),
        (f'{HOOK}secret = "{SECRET}"\n'.replace("https:", "ftp:"), "webhook[0].url"),
        (f'{HOOK}secret = "{SECRET}"\n' * 2, "webhook[1].name"),
        (f'{HOOK}secret = "{SECRET}"\n'.replace('"ops"', '"../ops"'), "webhook[0].name"),
        ('[notifications.email]\nhost = "m"\nsender = "grus@example.org"\n', "email.to"),
        ('[notifications.email]\nhost = "m"\nsender = "a\\nBcc: b@c.d"\nto = ["a@b.c"]\n', "email.sender"),
        (
            '[notifications.email]\nhost = "m"\nsender = "a@b.c"\nto = ["a@b.c"]\nusername = "u"\n'
            f'password = "{SECRET}"\ntls = "none"\n',
            "email.tls",
        ),
    ],
)
def test_a_mistake_in_a_receiver_is_named_without_its_secret_or_its_path(
    at: GrusPaths, text: str, field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        made(at, text)
    assert [name.removeprefix(f"{at.config_file}: ") for name in fields(caught)] == [f"notifications.{field}"]
    assert "t0p" not in str(caught.value)
