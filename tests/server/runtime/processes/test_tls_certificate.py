"""A certificate is checked before the server starts; each problem is named with its file and its fix."""

import subprocess
import time
from pathlib import Path

import pytest

from grus.model.errors import BadInput
from grus.sdk.state_paths import places
from grus.server.config import load, with_identity
from grus.server.runtime.last_address import remember
from grus.server.runtime.tls_certificate import read_certificate
from tests.server.certificates import make_certificate

NOW = time.time() + 3600  # the certificates of the tests are made after this line
YEAR = 365 * 86400.0


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path, "DNS:gpu.lab", "DNS:*.sub.lab", "IP:10.0.0.5")


def test_a_good_certificate_shows_its_names_and_its_end(pair: tuple[Path, Path]) -> None:
    found = read_certificate(*pair, NOW)
    assert found.names == ("gpu.lab", "*.sub.lab", "10.0.0.5")
    assert found.hosts == ("gpu.lab", "10.0.0.5")
    assert 29 < (found.expires_at - NOW) / 86400 < 31
    assert found.pem in pair[0].read_text()


@pytest.mark.parametrize(
    ("host", "covered"),
    [
        ("gpu.lab", True),
        ("GPU.lab", True),
        ("a.sub.lab", True),
        ("a.b.sub.lab", False),
        ("sub.lab", False),
        ("10.0.0.5", True),
        ("10.0.0.6", False),
        ("lab", False),
    ],
)
def test_names_are_covered_as_clients_see_it(pair: tuple[Path, Path], host: str, covered: bool) -> None:
    assert read_certificate(*pair, NOW).covers(host) is covered


def refused(certificate: Path, key: Path, now: float = NOW) -> str:
    with pytest.raises(BadInput) as caught:
        read_certificate(certificate, key, now)
    return str(caught.value)


def test_each_problem_is_named(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    junk = tmp_path / "junk"
    junk.write_text("junk")
    other = make_certificate(tmp_path, "DNS:gpu.lab", stem="other")
    nameless = make_certificate(tmp_path, stem="nameless")
    sealed = tmp_path / "sealed.key"
    seal = ["openssl", "pkey", "-in", str(key), "-aes128", "-passout", "pass:secret", "-out", str(sealed)]
    subprocess.run(seal, check=True)
    assert "--tls-cert: names no file" in refused(tmp_path / "none", key)
    assert "--tls-key: names no file" in refused(certificate, tmp_path / "none")
    assert "Is a directory" in refused(tmp_path, key)
    assert "holds no PEM certificate" in refused(junk, key)
    assert "holds no PEM key" in refused(certificate, junk)
    assert f"does not belong to the certificate {certificate}" in refused(certificate, other[1])
    assert "is encrypted" in refused(certificate, sealed)
    assert "names no host" in refused(*nameless)
    assert "expired on" in refused(certificate, key, NOW + YEAR)
    assert "is valid from" in refused(certificate, key, NOW - YEAR)


def test_a_certificate_of_broken_bytes_is_named(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    broken = tmp_path / "broken.crt"
    lines = pair[0].read_text().splitlines()
    broken.write_text("\n".join([lines[0], "AAAA", *lines[2:]]))
    assert str(broken) in refused(broken, pair[1])


def test_a_key_that_may_not_be_read_is_named(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_text

    def denied(path: Path, **more: str) -> str:  # root, as the tests often are, reads every file
        if path == pair[1]:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, **more)

    monkeypatch.setattr(Path, "read_text", denied)
    assert "--tls-key: cannot be read by the user" in refused(*pair)


def test_the_host_must_be_among_the_names(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    at = places({"GRUS_HOME": str(tmp_path)})
    certificate, key = pair
    with pytest.raises(BadInput, match=r"--host: is not among the names .*gpu\.lab"):
        with_identity(load(at, host="other.lab", certificate=certificate, key=key), NOW)
    found = with_identity(load(at, host="gpu.lab", certificate=certificate, key=key), NOW)
    assert found.hosts == {"gpu.lab", "10.0.0.5"}


def test_every_address_takes_its_names_from_the_certificate(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    at = places({"GRUS_HOME": str(tmp_path)})
    found = with_identity(load(at, host="0.0.0.0", certificate=pair[0], key=pair[1]), NOW)
    assert (found.public_host, found.session_host) == ("gpu.lab", "gpu.lab")
    assert {"gpu.lab", "10.0.0.5"} <= found.hosts
    certificate, key = make_certificate(tmp_path, "DNS:*.lab", stem="wild")
    with pytest.raises(BadInput, match="name this server with --host"):
        with_identity(load(at, host="0.0.0.0", certificate=certificate, key=key), NOW)


def test_a_new_certificate_must_cover_the_remembered_host(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    at = places({"GRUS_HOME": str(tmp_path / "home")})
    remember(at, port=7700, host="gpu.lab", certificate=pair[0], key=pair[1])
    certificate, key = make_certificate(tmp_path, "DNS:other.lab", stem="renewed")
    with pytest.raises(BadInput, match="--host: is not among the names of the certificate"):
        with_identity(load(at, certificate=certificate, key=key), NOW)
