"""The address that a server listens on, for each host that an operator may name."""

import pytest

from grus.model.errors import BadInput, Conflict
from grus.server.http.listener import bind, interface


@pytest.mark.parametrize(
    ("host", "known", "address"),
    [
        ("10.0.0.5", [], "10.0.0.5"),
        ("::", [], "::"),
        ("0.0.0.0", [], "0.0.0.0"),
        ("localhost", [], "127.0.0.1"),
        ("gpu.lab", ["fd00::5", "10.0.0.5"], "10.0.0.5"),
        ("gpu.lab", ["fd00::5"], "fd00::5"),
        ("gpu.lab", ["127.0.1.1"], "0.0.0.0"),
        ("gpu.lab", ["127.0.1.1", "10.0.0.5"], "10.0.0.5"),
    ],
)
def test_a_name_listens_where_others_reach_it(host: str, known: list[str], address: str) -> None:
    assert interface(host, lambda name: known) == address


def test_a_name_without_an_address_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match=r"gpu\.lab.*|0\.0\.0\.0"):
        interface("gpu.lab", lambda name: [])


def test_an_address_of_another_machine_is_refused_with_what_to_do() -> None:
    with pytest.raises(Conflict, match=r"192\.0\.2\.7 is no address of this machine.*--host"):
        bind("192.0.2.7", 0)
