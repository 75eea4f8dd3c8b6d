"""The benchmark in small: real torch jobs are profiled by a real server, and what it says holds together."""

from collections.abc import Iterator

import pytest

from benchmarks.grus_server import GrusServer
from benchmarks.profiling import AGAIN, LARGER, SMALL, TWO, Profiled, figures, profile, torch_program

MODEL = 50e6
"""Bytes: torch alone takes more."""


@pytest.fixture(scope="module")
def server() -> Iterator[GrusServer]:
    with GrusServer("1x2x16GB") as made:
        yield made


@pytest.fixture(scope="module")
def found(server: GrusServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profiled]:
    program, cases = torch_program(tmp_path_factory.mktemp("profiling")), (SMALL, TWO, LARGER)
    return profile(server, program, cases, epochs=40, small=1280, larger=12_800)


def profiles(server: GrusServer) -> bytes:
    status, answer = server.connection().ask("GET", "/v1/profiles")
    assert status == 200
    return answer


def test_the_same_program_has_one_fingerprint_whatever_its_size_and_data(found: dict[str, Profiled]) -> None:
    assert len({one.fingerprint for one in found.values()}) == 1


def test_nothing_is_expected_of_the_first_run_and_of_the_next_what_the_first_took(
    found: dict[str, Profiled],
) -> None:
    assert found[SMALL].expected is None
    expected = found[TWO].expected
    assert expected is not None
    assert expected["runs"] == 1
    assert expected["memory"] == found[SMALL].run["peak_memory"]
    assert expected["duration"] == found[SMALL].run["seconds"]


def test_new_data_under_the_same_code_are_noticed_and_take_more_memory(found: dict[str, Profiled]) -> None:
    told = found[LARGER].expected
    assert told is not None
    assert told["new_data"] is True
    before = found[TWO].expected
    assert before is not None
    assert before["new_data"] is False
    assert found[LARGER].number("peak_memory") > found[SMALL].number("peak_memory") > MODEL


def test_one_worker_and_two_are_told_apart(found: dict[str, Profiled]) -> None:
    assert found[SMALL].use is not None
    assert found[TWO].use is not None
    assert found[TWO].number("host_memory") > 1.5 * found[SMALL].number("host_memory")


def test_figures_are_told_for_every_run(found: dict[str, Profiled]) -> None:
    told = figures({"torch": {**found, AGAIN: found[TWO]}})
    durations = told["duration_s"]
    assert isinstance(durations, dict)
    assert set(durations) == {"torch, small", "torch, small again", "torch, two workers", "torch, larger"}
    assert told["fingerprints"] == 1


def test_a_server_that_was_killed_knows_it_all_again(server: GrusServer, found: dict[str, Profiled]) -> None:
    before = profiles(server)
    assert found[LARGER].fingerprint in before.decode()
    server.connection().close()
    server.kill()
    server.start()
    assert profiles(server) == before
