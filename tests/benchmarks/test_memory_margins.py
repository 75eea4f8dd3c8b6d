from hypothesis import given
from hypothesis import strategies as st

from benchmarks.memory_margins import Observation, learn
from grus.estimation.calibration import Margin

GB = 10**9


def a_run(model: str, beyond: int, gpu: str = "A100") -> Observation:
    return Observation(model, gpu, 10 * GB, 10 * GB + beyond)


def test_nothing_is_said_from_fewer_than_three_models() -> None:
    runs = [a_run("a", 1), a_run("b", 2), a_run("b", 3)]
    assert learn(runs, "A100") is None
    assert learn([*runs, a_run("c", 4)], "A100") is not None


def test_runs_on_other_gpus_and_of_the_model_itself_teach_nothing() -> None:
    runs = [a_run("a", 100), a_run("b", 200), a_run("c", 300)]
    others = [a_run("d", 5 * GB, gpu="V100"), a_run("own", 9 * GB)]
    assert learn([*runs, *others], "A100", without="own") == learn(runs, "A100")


def test_a_model_that_ran_often_counts_once() -> None:
    runs = [a_run("a", 100), a_run("b", 200), a_run("c", 300)]
    assert learn([*runs, *[a_run("c", 300)] * 50], "A100") == learn(runs, "A100")


def test_models_that_agree_leave_no_room_for_doubt() -> None:
    assert learn([a_run(name, 700) for name in "abc"], "A100") == Margin(700, 700)


def test_three_models_give_the_bound_of_students_distribution() -> None:
    found = learn([a_run("a", 100), a_run("b", 200), a_run("c", 300)], "A100")
    # 200 + 4.3027 (t of 2 degrees of freedom at 97.5 %) × 100 × √(4/3)
    assert found == Margin(200, 697)


def test_margins_are_never_negative() -> None:
    assert learn([a_run(name, -700) for name in "abc"], "A100") == Margin(0, 0)


@given(st.lists(st.integers(-GB, GB), min_size=3, max_size=12), st.integers(0, 11), st.integers(1, GB))
def test_a_run_that_took_more_never_lowers_the_typical_margin(
    beyond: list[int], which: int, more: int
) -> None:
    raised = [value + more * (number == which) for number, value in enumerate(beyond)]
    before = learn([a_run(str(n), value) for n, value in enumerate(beyond)], "A100")
    after = learn([a_run(str(n), value) for n, value in enumerate(raised)], "A100")
    assert before is not None
    assert after is not None
    assert after.typical >= before.typical
