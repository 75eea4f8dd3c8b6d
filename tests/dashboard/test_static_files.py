"""Styles and scripts: only those that there are, kept for good by their content; and codes for one visit."""

import gzip
import zipfile
from pathlib import Path

import pytest

from grus.dashboard import static_files
from grus.dashboard.mounting import mount
from grus.model.errors import NotLoggedIn
from grus.server.http.one_time_codes import LASTS, MOST, Codes
from tests.server.house import House

ROOT = Path(__file__).parents[2]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, mount=mount)


def test_a_file_of_the_present_version_is_kept_for_good_and_of_another_is_asked_for_again(
    house: House,
) -> None:
    fresh = house.ask("GET", static_files.address("grus.css"), None)
    old = house.ask("GET", "/static/0123456789ab/grus.css", None)
    same = house.ask(
        "GET", static_files.address("grus.css"), None, headers={"If-None-Match": fresh.headers["ETag"]}
    )
    house.close()
    assert "immutable" in fresh.headers["Cache-Control"]
    assert old.headers["Cache-Control"] == "no-cache"
    assert old.text == fresh.text
    assert (same.status_code, same.content) == (304, b"")


def test_files_go_out_packed_to_those_who_can_unpack_and_plain_to_others(house: House) -> None:
    packed = house.ask("GET", static_files.address("plotly.js"), None, headers={"Accept-Encoding": "gzip"})
    plain = house.ask("GET", static_files.address("plotly.js"), None, headers={"Accept-Encoding": "identity"})
    house.close()
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.content == plain.content
    assert int(packed.headers["Content-Length"]) < len(plain.content) / 2
    assert gzip.decompress(static_files.read("plotly.js").packed) == plain.content


@pytest.mark.parametrize("name", ["nothing.css", "..%2f..%2fpages.py", "base.html", "__init__.py", "%2e%2e"])
def test_nothing_else_of_the_package_is_served(house: House, name: str) -> None:
    answer = house.ask("GET", f"/static/{static_files.present()}/{name}", None)
    house.close()
    assert answer.status_code == 404


def test_pages_and_what_they_load_are_in_the_wheel(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling")
    (made,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    inside = set(zipfile.ZipFile(made).namelist())
    own = [
        file for kind in ("templates", "static") for file in (ROOT / "src/grus/dashboard" / kind).iterdir()
    ]
    assert len(own) > 10
    assert {f"grus/dashboard/{file.parent.name}/{file.name}" for file in own} <= inside


# -------------------------------------------------------------------------------------------------- codes


def test_a_code_stands_for_its_token_once_and_for_a_minute() -> None:
    now = [0.0]
    codes = Codes(lambda: now[0], "Try again.")
    first, late = codes.make("digest"), codes.make("digest")
    assert codes.spend(first) == "digest"
    for spent in (first, "never made", ""):
        with pytest.raises(NotLoggedIn, match="used before"):
            codes.spend(spent)
    now[0] = LASTS
    with pytest.raises(NotLoggedIn):
        codes.spend(late)


def test_codes_that_nobody_uses_do_not_pile_up() -> None:
    codes = Codes(lambda: 0.0, "Try again.")
    first = codes.make("digest")
    last = [codes.make("digest") for _ in range(MOST)][-1]
    with pytest.raises(NotLoggedIn):
        codes.spend(first)
    assert codes.spend(last) == "digest"
