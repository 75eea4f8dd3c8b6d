"""Which of a job's GPUs work."""

from grus.patterns.gpus_at_work import at_work


def test_gpus_at_work_are_those_that_do_a_fair_part() -> None:
    assert at_work([0.9, 0.0, 0.01, 0.0]) == 1
    assert at_work([0.9, 0.5, 0.2, 0.05]) == 3
    assert at_work([0.01, 0.0]) == 0
    assert at_work([]) == 0
