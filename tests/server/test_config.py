"""What config.toml may say, and that a server is never easier to reach than its owner meant."""

from pathlib import Path

import pytest

from grus.model.errors import BadInput
from grus.model.prices import Prices
from grus.sdk.places import Places, places
from grus.server.config import load
from grus.telemetry.recorder import Keep


@pytest.fixture
def at(tmp_path: Path) -> Places:
    return places({"GRUS_HOME": str(tmp_path)})


def fields(caught: pytest.ExceptionInfo[BadInput]) -> list[str]:
    return [mistake.field for mistake in caught.value.mistakes]


def test_without_a_file_the_server_is_for_this_machine_only(at: Places) -> None:
    settings = load(at)
    assert (settings.host, settings.port, settings.tls) == ("127.0.0.1", 7600, False)
    assert settings.hosts == {"127.0.0.1", "localhost", "[::1]"}


def test_the_file_is_read_and_the_command_line_goes_before_it(at: Places) -> None:
    at.config_file.write_text(
        '[server]\nport = 1\npool = "virtual 2x4x16GB"\n'
        '[queues.vision]\nquota = 4\n[retention]\nevents = "2d"\nresults = "3d"\n'
    )
    settings = load(at, port=2, host=None)
    assert (settings.port, settings.pool, settings.events_kept) == (2, "virtual 2x4x16GB", 2 * 86400)
    assert settings.results_kept == 3 * 86400
    assert [(name, queue.quota) for name, queue in settings.queues] == [("vision", 4)]


def test_every_mistake_of_the_file_is_told_at_once(at: Places) -> None:
    at.config_file.write_text(
        '[server]\nport = 70000\nprot = 1\n[queues.a]\nquota = -1\n[retention]\njobs = "x"\n'
    )
    with pytest.raises(BadInput) as caught:
        load(at)
    found = ["queues.a.quota", "retention.jobs", "server.port", "server.prot"]
    assert sorted(fields(caught)) == [f"{at.config_file}: {name}" for name in found]


def test_how_often_is_measured_and_how_long_it_is_kept_can_be_set(at: Places) -> None:
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


def test_exporters_are_named_with_or_without_their_nodes(at: Places) -> None:
    at.config_file.write_text('[telemetry]\ndcgm = ["http://a:9400/metrics"]\nprometheus = "prom:9090"\n')
    with pytest.raises(BadInput, match="must be an address") as caught:
        load(at)
    assert fields(caught) == [f"{at.config_file}: telemetry.prometheus"]
    at.config_file.write_text('[telemetry]\ndcgm = ["http://a:9400/metrics"]\nnode_label = "host"\n')
    assert load(at).dcgm == (("http://a:9400/metrics", ""),)
    at.config_file.write_text('[telemetry.dcgm]\n"http://a:9400/metrics" = "node-a"\n')
    assert load(at).dcgm == (("http://a:9400/metrics", "node-a"),)


def test_a_file_that_is_no_toml_is_told_with_its_path(at: Places) -> None:
    at.config_file.write_text("[server")
    with pytest.raises(BadInput, match=r"config\.toml"):
        load(at)


def test_another_address_needs_tls_or_an_explicit_word(at: Places) -> None:
    with pytest.raises(BadInput, match="insecure-http") as caught:
        load(at, host="10.0.0.1")
    assert fields(caught) == ["server.host"]
    assert load(at, host="10.0.0.1", insecure_http=True).hosts == {"10.0.0.1"}
    assert load(at, host="10.0.0.1", certificate=Path("/c"), key=Path("/k")).tls


def test_every_address_needs_the_names_under_which_clients_ask(at: Places) -> None:
    with pytest.raises(BadInput) as caught:
        load(at, host="0.0.0.0", insecure_http=True)
    assert fields(caught) == ["server.allowed_hosts"]


def test_a_certificate_needs_its_key(at: Places) -> None:
    with pytest.raises(BadInput, match="--tls-cert and --tls-key"):
        load(at, certificate=Path("/c"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(at: Places, host: str) -> None:
    assert load(at, host=host).host == host


def test_the_policy_is_one_of_those_that_there_are(at: Places) -> None:
    at.config_file.write_text('[server]\npolicy = "srtf"\n')
    assert load(at).policy == "srtf"
    at.config_file.write_text('[server]\npolicy = "best"\n')
    with pytest.raises(BadInput, match="fifo, fair, srtf, tiresias, optimus, grus"):
        load(at)


def test_prices_are_what_the_owner_says_and_nothing_is_guessed(at: Places) -> None:
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
