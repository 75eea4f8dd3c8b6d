"""What lets a browser into a session, and what of a request passes: pure rules."""

import pytest

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import User
from grus.sdk.state_paths import places
from grus.server.config import ServerSettings
from grus.server.http.session_cookies import Sessions
from grus.server.session_proxy import headers
from grus.server.session_proxy.session_access import LASTS, DevSessions, OneTimeLinks, Origins, base, job_in

JOB, OTHER = JobId("j0123456789"), JobId("jabcdefghjk")
ADA = User(name=UserName("ada"))
KEY = b"k" * 32
DIGEST = "d" * 64


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def holder(digest: str) -> User:
    if digest != DIGEST:
        raise NotLoggedIn("no such token")
    return ADA


def test_a_cookie_opens_the_session_that_it_was_made_for_and_no_other() -> None:
    sessions = DevSessions(KEY, holder, Clock())
    cookie = sessions.cookie(JOB, DIGEST)
    assert sessions.read(JOB, cookie).user == ADA
    with pytest.raises(NotLoggedIn):
        sessions.read(OTHER, cookie)


@pytest.mark.parametrize(
    "wrong", ["", "x", ".", "a.b.c.d", f"{DIGEST}.{JOB}.9999999999.{'0' * 64}", "é.é.é.é"]
)
def test_what_the_server_has_not_written_opens_nothing(wrong: str) -> None:
    with pytest.raises(NotLoggedIn):
        DevSessions(KEY, holder, Clock()).read(JOB, wrong)


def test_neither_kind_of_cookie_stands_in_for_the_other() -> None:
    sessions, pages = DevSessions(KEY, holder, Clock()), Sessions(KEY, holder, Clock())
    with pytest.raises(NotLoggedIn):
        sessions.read(JOB, pages.cookie(DIGEST))
    with pytest.raises(NotLoggedIn):
        pages.read(sessions.cookie(JOB, DIGEST))


def test_a_cookie_ends_with_its_time_and_with_its_token() -> None:
    clock = Clock()
    cookie = DevSessions(KEY, holder, clock).cookie(JOB, DIGEST)
    with pytest.raises(NotLoggedIn):
        DevSessions(KEY, lambda _: holder("gone"), clock).read(JOB, cookie)
    clock.now += LASTS
    with pytest.raises(NotLoggedIn):
        DevSessions(KEY, holder, clock).read(JOB, cookie)


def test_an_address_opens_its_own_session_once() -> None:
    doorway = OneTimeLinks(Origins("http", "*.localhost", 7601), Clock())
    code = doorway.address(JOB, DIGEST).partition("#code=")[2]
    with pytest.raises(NotLoggedIn):
        doorway.spend(OTHER, code)
    code = doorway.address(JOB, DIGEST).partition("#code=")[2]
    assert doorway.spend(JOB, code) == DIGEST
    with pytest.raises(NotLoggedIn):
        doorway.spend(JOB, code)


@pytest.mark.parametrize(
    ("host", "scheme", "port", "told"),
    [
        ("*.localhost", "http", 7601, f"http://{JOB}.localhost:7601"),
        ("dev.example.org", "https", 443, "https://dev.example.org"),
        ("127.0.0.1", "http", 80, "http://127.0.0.1"),
    ],
)
def test_each_session_has_an_origin(host: str, scheme: str, port: int, told: str) -> None:
    assert Origins(scheme, host, port).of(JOB) == told


@pytest.mark.parametrize(
    ("path", "job"),
    [
        (f"/dev/{JOB}/", JOB),
        (f"/dev/{JOB}/api/x", JOB),
        (f"/dev/{JOB}", None),
        ("/dev/", None),
        ("/dev//x", None),
        ("/dev/j01234567/x", None),
        ("/dev/J0123456789/x", None),
        ("/dev/j012345678!/x", None),
        (f"/v1/{JOB}/", None),
        (f"//dev/{JOB}/", None),
    ],
)
def test_a_path_is_of_the_session_that_it_names(path: str, job: str | None) -> None:
    assert job_in(path) == job


def test_without_a_name_of_their_own_sessions_are_under_localhost_or_the_servers_name() -> None:
    at = places({"GRUS_HOME": "/nonexistent"})
    assert ServerSettings(places=at).session_host == "*.localhost"
    assert ServerSettings(places=at, dev_host="dev.lab").session_host == "dev.lab"
    everywhere = ServerSettings(places=at, host="0.0.0.0", allowed_hosts=("gpu.lab",), insecure_http=True)
    assert everywhere.session_host == "gpu.lab"
    assert ServerSettings(places=at, host="10.0.0.1", insecure_http=True).session_host == "10.0.0.1"


# ------------------------------------------------------------------------------------------------ headers


def test_nothing_of_the_visitor_goes_on_but_what_the_session_has_set() -> None:
    sent = headers.towards(
        [
            (b"host", b"x.localhost"),
            (b"cookie", b"grus_session=1; grus_dev_x=2; grafana=3; _xsrf=4"),
            (b"authorization", b"Bearer mine"),
            (b"origin", b"http://x.localhost"),
            (b"referer", b"http://x.localhost/secret"),
            (b"x-forwarded-for", b"1.2.3.4"),
            (b"connection", b"keep-alive"),
            (b"accept", b"*/*"),
        ],
        "127.0.0.1:4711",
        "S3CRET",
        {"_xsrf"},
    )
    assert sorted(sent) == [
        (b"accept", b"*/*"),
        (b"authorization", b"token S3CRET"),
        (b"cookie", b"_xsrf=4"),
        (b"host", b"127.0.0.1:4711"),
        (b"origin", b"http://127.0.0.1:4711"),
    ]


def test_what_comes_back_reaches_no_further_than_the_session() -> None:
    origin = f"http://{JOB}.localhost:7601"
    got = headers.back(
        [
            (b"Content-Type", b"text/html"),
            (b"Set-Cookie", b"grus_session=forged; Path=/"),
            (b"Set-Cookie", b"__Host-x=1; Path=/; Secure"),
            (b"Set-Cookie", b"own=1; Domain=localhost; Path=/; HttpOnly; Max-Age=5"),
            (b"Location", b"http://127.0.0.1:4711/dev/x/lab"),
            (b"Clear-Site-Data", b'"*"'),
            (b"Service-Worker-Allowed", b"/"),
            (b"Access-Control-Allow-Origin", b"*"),
            (b"Connection", b"close"),
        ],
        JOB,
        "127.0.0.1:4711",
        origin,
    )
    told = dict(got)
    assert [value for name, value in got if name == b"set-cookie"] == [
        f"own=1; Path={base(JOB)}; SameSite=Strict; Max-Age=5; HttpOnly".encode()
    ]
    assert told[b"location"] == b"/dev/x/lab"
    assert {b"clear-site-data", b"service-worker-allowed", b"connection"}.isdisjoint(told)
    assert not any(name.startswith(b"access-control") for name in told)
    assert b"form-action 'self'" in told[b"content-security-policy"]
