"""Answers that are remembered for the very value that was asked about."""

from dataclasses import dataclass

from grus.controlplane import identity_memo
from grus.controlplane.identity_memo import remembered


@dataclass(frozen=True)
class Value:
    number: int


def _doubled(value: Value) -> int:
    return 2 * value.number


def test_what_was_asked_of_a_value_is_not_worked_out_again() -> None:
    asked: list[Value] = []

    @remembered
    def doubled(value: Value) -> int:
        asked.append(value)
        return 2 * value.number

    one, equal = Value(1), Value(1)
    assert [doubled(one), doubled(one), doubled(equal)] == [2, 2, 2]
    assert len(asked) == 2, "an equal value is another one"


def test_a_value_that_is_gone_never_lends_its_answer_to_another_at_the_same_address() -> None:
    doubled = remembered(_doubled)
    assert all(doubled(Value(number)) == 2 * number for number in range(4 * identity_memo.MOST))


def test_only_so_many_are_remembered() -> None:
    alive: list[int] = []

    class Noted(Value):
        def __del__(self) -> None:
            alive.remove(self.number)

    doubled = remembered(_doubled)
    for number in range(3 * identity_memo.MOST):
        alive.append(number)
        doubled(Noted(number))
        assert len(alive) <= identity_memo.MOST + 1
