"""A member's job gets nothing of the server or of another member's; where it could, the attacks show it."""

import pytest

from tests.trust import inside
from tests.trust.inside import MODES, Mode

pytestmark = pytest.mark.skipif(bool(inside.missing()), reason=inside.missing() or "can run")


@pytest.mark.parametrize(
    "mode", [mode for mode in MODES if mode.root or mode.boxed], ids=lambda mode: mode.name
)
def test_a_members_job_gets_nothing_that_is_not_its_own(mode: Mode) -> None:
    with inside.a_pool(mode) as pool:
        found = inside.attacked(pool)
    assert found["got"] == {}
    assert len(found["tried"]) >= 30


def test_without_isolation_a_second_member_is_refused_and_attacks_would_succeed() -> None:
    with inside.a_pool(MODES[-1]) as pool:
        assert inside.refusals(pool)["got"] == {}
        pool.grus.delete_user("viewer")
        found = inside.attacked(pool, accept=True)
        told = pool.grus.status()
    for name in (
        *(
            "read the admin token",
            "read the server's files",
            "environment in /proc",
            "memory of another process",
        ),
        *("signal another process", "write the settings", "write another worker's folder", "list logs"),
    ):
        assert name in found["got"], name
    assert told.mechanisms["isolation"].startswith("none: all jobs run as uid 12345")
    assert any("can read the admin token" in text for text in told.warnings)


def test_a_state_with_several_people_starts_with_a_warning_and_says_how_to_end_it() -> None:
    with inside.a_pool(MODES[-1]) as pool:
        pool.grus.put_user("eve", {"role": "member", "accept_shared_account": True})
        pool.stop()
        pool.said.write_text("")
        pool.start()
        said = pool.said.read_text()
    assert "WARNING: 2 people submit jobs, and all jobs run as the same Unix user (uid 12345)" in said
    assert 'isolation = "bubblewrap"' in said
