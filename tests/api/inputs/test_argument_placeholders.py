"""Values of trials in commands: each stays one argument, and all other braces stay as they are."""

import pytest

from grus.api.inputs.argument_placeholders import argument_rules, fill
from grus.model.sweep_search import Value


def rules(run: str | list[str], **known: tuple[Value, ...]) -> list[str]:
    return [one.rule for one in argument_rules(("run",), run, known)]


@pytest.mark.parametrize(
    "line",
    [
        'x "{kind}"',
        "x '{kind}'",
        "x \\{kind}",
        "x # {kind}",
        'x "$(y "{kind}")"',
        "x `y {kind}`",
        "x <<E\n{kind}\nE",
        "echo it's {kind}",
        'x "${Y:-"{kind}"}"',
    ],
)
def test_where_a_shell_reads_quotes_in_another_way_only_plain_values_are_allowed(line: str) -> None:
    assert rules(line, kind=("adam", 1, 0.5, True)) == []
    assert rules(line, kind=(), other=("a b",)) == []
    (rule,) = rules(line, kind=("adam", "a b"))
    assert rule.startswith("{kind} can be 'a b', which needs quotes of its own: write {kind} outside quotes")


def test_numbers_and_flags_are_written_as_in_yaml() -> None:
    params = (("lr", 1e-05), ("optimizer.width", 64), ("amp", True))
    argv = fill(("train", "{lr}", "{optimizer.width}", "{amp}", '{"lr": {lr}}'), params)
    assert argv == ("train", "1e-05", "64", "true", '{"lr": 1e-05}')


@pytest.mark.parametrize(
    "word", ["${lr}", "${{lr}}", "{}", '{"lr": 1}', "{lr,width}", "{ lr }", "{0}", "{{ lr }}"]
)
def test_other_braces_stay(word: str) -> None:
    assert fill(("x", word), (("lr", 1),)) == ("x", word)
    assert rules(["x", word], lr=()) == []


def test_double_braces_are_the_text_itself() -> None:
    assert rules("awk '{{print}}' {{lr}}", lr=("a b",)) == []
    assert fill(("/bin/sh", "-c", "awk '{{print}}' {{lr}}"), (("lr", 1),))[2] == "awk '{print}' {lr}"


def test_a_value_is_not_searched_for_placeholders() -> None:
    assert fill(("x", "{a}", "{b}"), (("a", "{b}"), ("b", "{{a}}"))) == ("x", "{b}", "{{a}}")


def test_an_unknown_name_is_refused_once_with_the_known_ones() -> None:
    text = "{{{{{0}}}}} for the text itself"
    assert rules("x {epochs} {epochs}", lr=(), width=()) == [
        f"{{epochs}} is not a parameter of this sweep (write {text.format('epochs')}); "
        "the parameters are lr, width"
    ]
    (rule,) = rules("x {widht}", lr=(), width=())
    assert rule.endswith("did you mean {width}?")


def test_a_null_byte_is_refused_where_it_would_be_an_argument() -> None:
    assert rules("x", kind=("a\0",)) == []
    (rule,) = rules(["x", "{kind}", "{kind}"], kind=("a\0",))
    assert "null byte" in rule
