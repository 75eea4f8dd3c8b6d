"""Sessions of browsers: what opens one, what ends it, and what it takes to change something with it."""

import stat
from pathlib import Path

import httpx2
import pytest

from grus.model.errors import NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.interfaces import User
from grus.server.http.session_cookies import COOKIE, LASTS, Sessions, key_in
from tests.server.house import JOB, House, digest

KEY = b"k" * 32
ORIGIN = "http://127.0.0.1:7600"


class Tokens:
    """One token, which can be taken back."""

    def __init__(self) -> None:
        self.known = {"d1": User(name=UserName("ada"))}
        self.now = 1000.0

    def holder(self, digest: str) -> User:
        if digest not in self.known:
            raise NotLoggedIn("unknown")
        return self.known[digest]

    def sessions(self, key: bytes = KEY) -> Sessions:
        return Sessions(key, self.holder, lambda: self.now)


def test_a_session_is_read_by_a_server_with_the_same_key_and_by_no_other() -> None:
    tokens = Tokens()
    cookie = tokens.sessions().cookie("d1")
    assert tokens.sessions().read(cookie).user.name == "ada"
    with pytest.raises(NotLoggedIn):
        tokens.sessions(b"x" * 32).read(cookie)


def test_a_session_ends_in_time_and_with_its_token() -> None:
    tokens = Tokens()
    sessions = tokens.sessions()
    cookie = sessions.cookie("d1")
    tokens.now += LASTS - 1
    assert sessions.read(cookie).token == "d1"
    tokens.now += 1
    with pytest.raises(NotLoggedIn, match="has ended"):
        sessions.read(cookie)
    fresh = sessions.cookie("d1")
    tokens.known.clear()
    with pytest.raises(NotLoggedIn):
        sessions.read(fresh)


@pytest.mark.parametrize("place", range(0, 130, 7))
def test_a_cookie_with_any_character_changed_is_nobodys(place: int) -> None:
    tokens = Tokens()
    tokens.known["d" * 64] = User(name=UserName("ada"))
    sessions = tokens.sessions()
    cookie = sessions.cookie("d" * 64)
    changed = cookie[:place] + ("0" if cookie[place] != "0" else "1") + cookie[place + 1 :]
    with pytest.raises(NotLoggedIn):
        sessions.read(changed)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "é.ü.ß", "d1.9999999999.", "." * 500])
def test_what_is_no_cookie_of_ours_is_nobodys(text: str) -> None:
    with pytest.raises(NotLoggedIn):
        Tokens().sessions().read(text)


def test_the_proof_of_a_form_is_another_one_for_each_session() -> None:
    tokens = Tokens()
    sessions = tokens.sessions()
    first = sessions.read(sessions.cookie("d1"))
    tokens.now += 10
    second = sessions.read(sessions.cookie("d1"))
    assert first.form != second.form


def test_the_key_is_kept_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "session.key"
    made = key_in(file)
    assert key_in(file) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(b"cut off")
    assert len(key_in(file)) == 32


# ------------------------------------------------------------------------------------------- at the gate


@pytest.fixture
def pages(tmp_path: Path) -> "Pages":
    return Pages(House(tmp_path, mount=lambda app: None, session_key=KEY))


class Pages:
    """A server with sessions; `ada` is signed in."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.cookie = house.app.state.sessions.cookie(digest("ada"))
        self.form = house.app.state.sessions.read(self.cookie).form

    def submit(self, **headers: str) -> httpx2.Response:
        sent = {"Cookie": f"{COOKIE}={self.cookie}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return self.house.ask("POST", "/v1/jobs", None, json=JOB, headers=sent)


def test_a_session_looks_without_more_and_acts_with_the_proof_and_an_origin(pages: Pages) -> None:
    look = pages.house.ask("GET", "/v1/jobs", None, headers={"Cookie": f"other=1; {COOKIE}={pages.cookie}"})
    acted = pages.submit(Origin=ORIGIN, Grus_Form=pages.form)
    pages.house.close()
    assert look.status_code == 200
    assert acted.status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": ORIGIN},
        {"Grus_Form": "FORM"},
        {"Origin": ORIGIN, "Grus_Form": "wrong"},
        {"Origin": ORIGIN, "Grus_Form": ""},
        {"Origin": "https://evil.example", "Grus_Form": "FORM"},
        {"Origin": "null", "Grus_Form": "FORM"},
    ],
)
def test_a_change_without_the_proof_or_from_another_site_is_refused(
    pages: Pages, headers: dict[str, str]
) -> None:
    answer = pages.submit(**{name: value.replace("FORM", pages.form) for name, value in headers.items()})
    jobs = pages.house.store.jobs()
    pages.house.close()
    assert answer.status_code == 403
    assert jobs == []


def test_a_token_beside_the_cookie_counts_alone(pages: Pages) -> None:
    wrong = {"Cookie": f"{COOKIE}={pages.cookie}", "Authorization": "Bearer wrong"}
    answer = pages.house.ask("GET", "/v1/jobs", None, headers=wrong)
    pages.house.close()
    assert answer.status_code == 401


def test_the_session_ends_when_the_token_is_taken_back(pages: Pages) -> None:
    house = pages.house
    asked = {"Cookie": f"{COOKIE}={pages.cookie}", "Accept": "text/html"}
    before = house.ask("GET", "/v1/status", None, headers=asked)
    house.ask("DELETE", f"/v1/tokens/{digest('ada')}", "admin")
    after = house.ask("GET", "/v1/status", None, headers={**asked, "Accept": "application/json"})
    browser = house.ask("GET", "/jobs?x=1&y=é", None, headers=asked)
    house.close()
    assert before.status_code == 200
    assert after.status_code == 401
    assert (browser.status_code, browser.headers["Location"]) == (
        303,
        "/sign-in?next=%2Fjobs%3Fx%3D1%26y%3D%25C3%25A9",
    )


def test_without_pages_there_are_no_sessions_and_no_way_to_sign_in(tmp_path: Path) -> None:
    house = House(tmp_path)
    cookie = Sessions(KEY, house.services.accounts.holder, lambda: 0.0).cookie(digest("ada"))
    asked = {"Cookie": f"{COOKIE}={cookie}", "Accept": "text/html"}
    statuses = [house.ask("GET", path, None, headers=asked).status_code for path in ("/v1/jobs", "/sign-in")]
    house.close()
    assert statuses == [401, 401]


@pytest.mark.parametrize("length", [None, "4097", "x"])
def test_a_stranger_may_not_make_the_server_read_much(pages: Pages, length: str | None) -> None:
    async def body() -> object:
        yield b"token="

    headers = {"Origin": ORIGIN, **({"Content-Length": length} if length else {})}
    content = b"t" * 5000 if length == "4097" else body()
    if length is None:
        headers["Transfer-Encoding"] = "chunked"
    answer = pages.house.ask("POST", "/sign-in", None, headers=headers, content=content)
    pages.house.close()
    assert answer.status_code == 413
