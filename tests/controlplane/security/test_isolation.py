"""A second person whose jobs would share an account is refused, unless an administrator accepts it."""

from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.security import isolation
from grus.controlplane.security.isolation import Isolation
from grus.controlplane.settings import Settings
from grus.model.errors import BadInput, Conflict
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.model.jobs import Checkpoint
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec

EVE = User(name=UserName("eve"))


def alone(folder: Path, **changes: bool) -> Settings:
    return Settings(state=folder, **changes)  # type: ignore[arg-type]  # flags only


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, Isolation.NONE),
        ({"boxed": True}, Isolation.BUBBLEWRAP),
        ({"as_submitters": True}, Isolation.UNIX_USERS),
        ({"containers": True}, Isolation.PODS),
    ],
)
def test_the_isolation_follows_from_the_settings(
    tmp_path: Path, settings: dict[str, bool], kind: Isolation
) -> None:
    made = alone(tmp_path, **settings)
    assert isolation.isolation(made) is kind
    assert bool(isolation.exposure(made, [ADMIN, ANN])) is (kind is Isolation.NONE)
    assert isolation.exposure(made, [ADMIN]) == ""
    if kind is not Isolation.NONE:
        isolation.require_apart(made, [ADMIN], ANN)


def test_a_second_person_is_refused_with_what_to_do_and_a_viewer_is_not(tmp_path: Path) -> None:
    with pytest.raises(Conflict) as refused:
        isolation.require_apart(alone(tmp_path), [ADMIN], EVE)
    for words in ("admin token", "bubblewrap", "--unix-user", "grus user set eve --accept-shared-account"):
        assert words in str(refused.value)
    viewer = replace(EVE, role=AccessRole.VIEWER)
    isolation.require_apart(alone(tmp_path), [ADMIN], viewer)
    with pytest.raises(Conflict):
        isolation.require_apart(alone(tmp_path), [ADMIN, viewer], EVE)  # made a member later


def test_those_who_are_there_already_can_be_changed_and_get_no_token(tmp_path: Path) -> None:
    isolation.require_apart(alone(tmp_path), [ADMIN, ANN], replace(ANN, role=AccessRole.ADMIN))
    with pytest.raises(Conflict, match="--accept-shared-account"):
        isolation.require_apart_for_token(alone(tmp_path), [ADMIN, ANN], ANN.name)


def test_what_was_accepted_holds_from_then_on_and_is_still_warned_of(tmp_path: Path) -> None:
    settings = alone(tmp_path)
    isolation.accept(settings, ADMIN.name, 1.0)
    isolation.require_apart(settings, [ADMIN], EVE)
    isolation.require_apart_for_token(settings, [ADMIN, EVE], EVE.name)
    assert isolation.exposure(settings, [ADMIN, EVE]) != ""
    isolation.require_apart(alone(tmp_path / "other", shared_account=True), [ADMIN], EVE)


def test_two_people_with_one_unix_user_are_not_isolated_nor_is_a_member_who_is_root(tmp_path: Path) -> None:
    root, boxed = alone(tmp_path, as_submitters=True), alone(tmp_path, as_submitters=True, boxed=True)
    ann, eve = replace(ANN, unix_user="nobody"), replace(EVE, unix_user="nobody")
    isolation.require_apart(root, [ADMIN], ann)
    with pytest.raises(Conflict, match="ann has the same Unix user nobody"):
        isolation.require_apart(root, [ADMIN, ann], eve)
    isolation.require_apart(boxed, [ADMIN, ann], eve)
    for settings in (root, boxed):
        with pytest.raises(Conflict, match="is root"):
            isolation.require_apart(settings, [ADMIN], replace(EVE, unix_user="root"))


def test_a_state_in_which_people_share_a_unix_user_is_warned_of_and_they_get_no_token(tmp_path: Path) -> None:
    root, boxed = alone(tmp_path, as_submitters=True), alone(tmp_path, as_submitters=True, boxed=True)
    ann, eve = replace(ANN, unix_user="nobody"), replace(EVE, unix_user="nobody")
    bob = User(name=UserName("bob"), unix_user="games")
    people = [ADMIN, ann, bob, eve]
    assert "jobs of eve are not isolated: ann has the same Unix user nobody" in isolation.exposure(
        root, people
    )
    assert isolation.exposure(boxed, people) == isolation.exposure(root, [ADMIN, ann, bob]) == ""
    for user in (ann, eve):
        with pytest.raises(Conflict, match="same Unix user"):
            isolation.require_apart_for_token(root, people, user.name)
    isolation.require_apart_for_token(root, people, bob.name)
    people[2] = replace(bob, unix_user="root")
    assert "jobs of bob are not isolated: its Unix user root is root" in isolation.exposure(boxed, people)
    assert all(isolation.exposure_of(boxed, people, user.name) for user in (ann, bob, eve))


def test_every_way_to_a_second_person_is_refused_by_the_services(tmp_path: Path) -> None:
    plane = Plane(state=tmp_path)
    plane.settings = replace(plane.settings, boxed=False)
    services = plane.services
    services.users._settings = services.pool._settings = plane.settings
    with pytest.raises(Conflict, match="not be isolated"):
        services.users.put(ADMIN, EVE)
    with pytest.raises(Conflict, match="no token for ann"):
        services.users.new_token(ADMIN, ANN.name, "")
    assert any("can read the admin token" in text for text in services.pool.status(ADMIN).warnings)
    services.users.put(ADMIN, EVE, accept_shared_account=True)
    services.users.new_token(ADMIN, EVE.name, "")


def test_a_job_does_not_run_or_save_in_the_servers_state(tmp_path: Path) -> None:
    plane = Plane(state=tmp_path)
    (tmp_path / "code" / "others").mkdir(parents=True)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path / "code")
    for workdir in (tmp_path, tmp_path / "code" / "others", link / "others"):
        with pytest.raises(BadInput, match="must not be in the server's state"):
            plane.services.actions.submit(ANN, replace(a_spec(), workdir=str(workdir))).result()
    saves = Checkpoint(path=str(tmp_path / "secrets"))
    with pytest.raises(BadInput, match=r"checkpoint\.path"):
        plane.services.actions.submit(ANN, replace(a_spec(), workdir="/", checkpoint=saves)).result()
