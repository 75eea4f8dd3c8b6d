"""The store of secrets: values go in, and come out for their owner's workers only."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.settings import Settings
from grus.model.errors import BadInput, Conflict, NotAllowed, NotFound
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec

EVE = User(name=UserName("eve"))
VALUE = "q7value7q"


@pytest.fixture
def secrets(tmp_path: Path) -> SecretStore:
    return SecretStore(Settings(state=tmp_path, boxed=True), lambda: (ADMIN, ANN, EVE))


def test_a_value_is_for_its_owners_workers_alone(secrets: SecretStore) -> None:
    secrets.put(ANN, "hf-token", VALUE)
    secrets.put(ANN, "hf-token", f"{VALUE}2")
    assert secrets.values(ANN.name, [("HF_TOKEN", "hf-token")]) == {"HF_TOKEN": f"{VALUE}2"}
    assert [one.name for one in secrets.listed(ANN)] == ["hf-token"]
    for other in (EVE, ADMIN):
        assert secrets.listed(other) == []
        with pytest.raises(NotFound, match="grus secret set hf-token"):
            secrets.values(other.name, [("HF_TOKEN", "hf-token")])
        with pytest.raises(NotFound):
            secrets.delete(other, "hf-token")
    secrets.delete(ANN, "hf-token")
    assert secrets.listed(ANN) == []


def test_files_are_for_the_server_alone(secrets: SecretStore, tmp_path: Path) -> None:
    secrets.put(ANN, "a", VALUE)
    found = list((tmp_path / "secrets").rglob("*"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o700, 0o600]
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    secrets.delete_all(ANN.name)
    assert list((tmp_path / "secrets").iterdir()) == []


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 70_000, 7, None, "\ud800"])
def test_a_value_that_cannot_be_a_variable_is_refused_without_repeating_it(
    secrets: SecretStore, value: object
) -> None:
    with pytest.raises(BadInput) as refused:
        secrets.put(ANN, "a", value)
    assert not value or str(value) not in repr(refused.value.mistakes).replace("7 ", "")


@pytest.mark.parametrize("name", ["../x", "A", ".x", "", "a/b", "x" * 64])
def test_a_name_is_no_path(secrets: SecretStore, name: str) -> None:
    with pytest.raises(BadInput):
        secrets.put(ANN, name, VALUE)
    with pytest.raises(NotFound):
        secrets.delete(ANN, name)


def test_viewers_have_none_and_nobody_has_where_other_peoples_jobs_could_read_them(tmp_path: Path) -> None:
    people = [ADMIN]
    secrets = SecretStore(Settings(state=tmp_path, shared_account=True), lambda: people)
    secrets.put(ADMIN, "a", VALUE)
    with pytest.raises(NotAllowed):
        secrets.put(replace(EVE, role=AccessRole.VIEWER), "a", VALUE)
    people.append(ANN)
    with pytest.raises(Conflict, match="other people's jobs"):
        secrets.put(ADMIN, "b", VALUE)
    assert "other people's jobs" in secrets.mistakes(ADMIN, replace(a_spec(), secrets=(("A", "a"),)))[0].rule


def test_a_job_with_an_unknown_secret_is_refused_with_what_to_do(tmp_path: Path) -> None:
    plane = Plane(state=tmp_path)
    plane.services.secrets.put(ANN, "known", VALUE)
    spec = replace(a_spec(), secrets=(("A", "known"), ("B", "unknown")))
    with pytest.raises(BadInput, match=r"secrets\.B: .*grus secret set unknown"):
        plane.services.actions.submit(ANN, spec).result()
    plane.services.actions.submit(ANN, replace(spec, secrets=spec.secrets[:1])).result()
    plane.services.users.delete(ADMIN, ANN.name, stop_jobs=True)
    assert plane.services.secrets.listed(ANN) == []


def test_on_kubernetes_the_store_says_how_secrets_are_set_there(tmp_path: Path) -> None:
    secrets = SecretStore(Settings(state=tmp_path, containers=True), lambda: (ADMIN, ANN))
    with pytest.raises(Conflict, match="grus-secret-NAME"):
        secrets.put(ANN, "a", VALUE)
    assert secrets.mistakes(ANN, replace(a_spec(), secrets=(("A", "a"),))) == []
