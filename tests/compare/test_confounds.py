"""What differs besides the environment is found, and nothing else is."""

import pytest

from grus.compare import confounds
from grus.compare.records import Node, RunRecord
from grus.compare.report_tables import UNTOLD
from tests.compare.made import a_comparison, a_record, a_run, a_side


def differing(one: RunRecord, other: RunRecord) -> list[tuple[bool, str]]:
    found = confounds.find(a_comparison(a_side("a", a_run("a", 1, one)), a_side("b", a_run("b", 1, other))))
    return [(confound.grave, confound.what) for confound in found]


def test_the_same_work_on_the_same_machine_has_no_confound() -> None:
    assert differing(a_record(), a_record()) == []


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (a_record(code="beef"), "code"),
        (a_record(data="beef"), "data"),
        (a_record(batch=64), "batch"),
        (a_record(precision="bf16"), "precision"),
        (a_record(gpus=(0, 1)), "GPU count"),
    ],
)
def test_other_work_is_grave(other: RunRecord, what: str) -> None:
    assert (True, what) in differing(a_record(), other)


def test_another_machine_and_others_on_it_are_loud_and_not_grave() -> None:
    node = Node(host="n2", cores=8, allowed=4, cpu_model="Another CPU", filesystem="nfs")
    found = differing(a_record(), a_record(node=node, others=3.0))
    assert set(found) == {
        (False, "CPU model"),
        (False, "cores allowed"),
        (False, "file system"),
        (False, "others' load on the node"),
    }


def test_a_change_between_the_runs_of_one_environment_is_found_too() -> None:
    side = a_side("a", a_run("a", 1, a_record()), a_run("a", 2, a_record(code="beef")))
    found = confounds.grave(a_comparison(side, a_side("b", a_run("b", 1, a_record()))))
    assert [one.what for one in found] == ["code"]
    assert "c0de" in str(found[0])
    assert "beef" in str(found[0])


def test_what_no_side_tells_is_said() -> None:
    plain = RunRecord(
        **{name: getattr(a_record(), name) for name in a_record().__slots__ if name not in ("told", "data")}
    )
    both = a_comparison(a_side("a", a_run("a", 1, plain)), a_side("b", a_run("b", 1, plain)))
    untold = confounds.untold(both)
    assert untold == ("batch", "precision", "data")
    assert all(UNTOLD[name] for name in untold)
