"""One GPU against several of the same work."""

from grus.patterns.scaling import Incomparable, ScalingComparison, ScalingPoint, at_work, compare


def a_use(gpus: int, utilisation: float, speed: float | None = None, **more: str) -> ScalingPoint:
    names = {"workload": "resnet on cifar", "type": "A100", **more}
    return ScalingPoint(gpus=gpus, utilisation=utilisation, speed=speed, **names)


def test_speed_and_waste_are_told_whichever_comes_first() -> None:
    one, four = a_use(1, 0.9, 100.0), a_use(4, 0.6, 280.0)
    found = compare(four, one)
    assert found == compare(one, four)
    assert isinstance(found, ScalingComparison)
    assert (found.speedup, found.efficiency) == (2.8, 0.7)
    assert found.sentence == (
        "a GPU is 60% busy with 4, 90% with 1; 2.80 times as fast, as if 1.2 of them stood still"
    )


def test_without_speeds_only_utilisation_is_held_against_each_other() -> None:
    found = compare(a_use(1, 0.9), a_use(2, 0.5))
    assert isinstance(found, ScalingComparison)
    assert found.speedup is None
    assert found.sentence.endswith("more GPUs wait more")
    same = compare(a_use(1, 0.9), a_use(2, 0.88))
    assert isinstance(same, ScalingComparison)
    assert same.sentence.endswith("about as busy")


def test_other_work_other_gpus_or_the_same_number_cannot_be_compared() -> None:
    one = a_use(1, 0.9)
    for other in (a_use(2, 0.9, workload="bert"), a_use(2, 0.9, type="T4"), a_use(1, 0.5)):
        assert isinstance(compare(one, other), Incomparable)


def test_gpus_at_work_are_those_that_do_a_fair_part() -> None:
    assert at_work([0.9, 0.0, 0.01, 0.0]) == 1
    assert at_work([0.9, 0.5, 0.2, 0.05]) == 3
    assert at_work([0.01, 0.0]) == 0
    assert at_work([]) == 0
