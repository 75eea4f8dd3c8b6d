"""Readers: what they read, and every mistake with its line."""

import pytest

from grus.model.errors import BadInput, Mistake
from grus.model.jobs import JobType
from grus.model.resources import Range
from grus.simulator.workload.traces import MOST_MISTAKES, read_trace

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,16,2951.0,6214e9

"""


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def mistakes_of(text: str) -> list[Mistake]:
    with pytest.raises(BadInput) as caught:
        read_trace(lines(text))
    return caught.value.mistakes


def test_a_philly_trace_is_read_in_order_of_time() -> None:
    first, second = read_trace(lines(PHILLY))
    assert (first.id, first.queue, first.gpus, first.duration, first.line) == (
        "t000000",
        "6214e9",
        16,
        2951.0,
        3,
    )
    assert second.submit - first.submit == 48 * 60 + 52
    assert (first.one_node, second.one_node) == (False, True)
    assert first.size is None


def test_a_generic_trace_may_say_more() -> None:
    text = (
        "submit,duration,gpus,queue,user,priority,min,max,type,checkpoint,max_runtime\n"
        "0,30m,4,vision,ann,60,2,8,train,10m,2h\n"
        "5,60,0.5,speech,bob,,,,dev,,\n"
        "2026-01-02 03:04:05,1.5,2,,,,,,,,\n"
    )
    elastic, dev, plain = read_trace(lines(text))
    assert (elastic.duration, elastic.size, elastic.priority) == (1800.0, Range(2, 8), 60)
    assert (elastic.save_every, elastic.max_runtime) == (600.0, 7200.0)
    assert (dev.type, dev.priority, dev.gpus) == (JobType.DEV, 100, 0.5)
    assert (plain.queue, plain.size, plain.submit) == ("default", None, 1767323045.0)


def test_only_min_or_only_max_makes_a_range_with_the_size_that_was_measured() -> None:
    text = "submit,duration,gpus,min,max\n0,10,4,2,\n1,10,4,,8\n2,10,4,4,4\n"
    assert [work.size for work in read_trace(lines(text))] == [Range(2, 4), Range(4, 8), None]


def test_blank_lines_and_a_byte_order_mark_are_passed_over() -> None:
    assert len(read_trace(lines("\ufeffsubmit,duration,gpus\n\n1,2,3\n\n  \n"))) == 1


@pytest.mark.parametrize(
    ("cells", "field", "words"),
    [
        ("0,-5,1", "duration", "above zero"),
        ("0,0,1", "duration", "above zero"),
        ("0,nan,1", "duration", "above zero"),
        ("0,soon,1", "duration", "length of time"),
        ("0,,1", "duration", "length of time"),
        ("yesterday,5,1", "submit", "must be a time"),
        (",5,1", "submit", "must be a time"),
        ("2026-13-01 00:00:00,5,1", "submit", "must be a time"),
        ("inf,5,1", "submit", "must be a time"),
        ("0,5,0", "gpus", "whole number of GPUs"),
        ("0,5,-2", "gpus", "whole number of GPUs"),
        ("0,5,1.5", "gpus", "whole number of GPUs"),
        ("0,5,two", "gpus", "whole number of GPUs"),
        ("0,5,1e12", "gpus", "whole number of GPUs"),
        ("0,5", "line", "must have 3 cells"),
        ("0,5,1,9", "line", "must have 3 cells"),
    ],
)
def test_each_broken_cell_is_named_with_its_line(cells: str, field: str, words: str) -> None:
    (mistake,) = mistakes_of(f"submit,duration,gpus\n0,1,1\n{cells}\n1,1,1\n")
    assert (mistake.field, mistake.line) == (field, 3)
    assert words in mistake.rule


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("priority", "-1", "whole number from 0"),
        ("priority", "high", "one of inference, dev"),
        ("type", "sweep", "one of train, dev, serve"),
        ("type", "idle", "one of train, dev, serve"),
        ("min", "0", "whole number of GPUs from 1"),
        ("max", "x", "whole number of GPUs from 1"),
        ("checkpoint", "-3", "above zero"),
    ],
)
def test_broken_optional_cells_are_named(column: str, cell: str, words: str) -> None:
    (mistake,) = mistakes_of(f"submit,duration,gpus,{column}\n0,5,1,{cell}\n")
    assert (mistake.field, mistake.line, mistake.value) == (column, 2, cell)
    assert words in mistake.rule


def test_a_range_must_be_one_and_of_whole_gpus() -> None:
    found = mistakes_of("submit,duration,gpus,min,max\n0,5,4,6,3\n0,5,0.5,1,2\n")
    assert [(m.field, m.line) for m in found] == [("min", 2), ("gpus", 3)]


def test_all_mistakes_are_told_at_once_and_nothing_is_read() -> None:
    found = mistakes_of("submit,duration,gpus\nx,y,z\n1,1,1\n0,-1,1\n")
    assert [(m.field, m.line) for m in found] == [
        ("gpus", 2),
        ("submit", 2),
        ("duration", 2),
        ("duration", 4),
    ]


def test_a_great_many_mistakes_are_counted() -> None:
    found = mistakes_of("submit,duration,gpus\n" + "0,-1,1\n" * 500)
    assert len(found) == MOST_MISTAKES + 1
    assert "400 mistakes more" in found[-1].rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("submit,duration,gpus\n", "has no jobs"),
        ("submit,duration\n0,1\n", "must name the column gpus"),
        ("submit,duration,gpus,colour\n0,1,1,red\n", "unknown column"),
        ("submit,duration,gpus,gpus\n0,1,1,1\n", "a column twice"),
        ("timestamp,duration,num_gpus,colour\n0,1,1,red\n", "unknown column"),
        ("a,b\n1,2\n", "unknown column"),
    ],
)
def test_a_file_without_a_proper_heading_is_refused(text: str, words: str) -> None:
    found = mistakes_of(text)
    assert words in found[0].rule
    assert found[0].line is not None


def test_a_line_of_philly_with_a_broken_number_is_named() -> None:
    (mistake,) = mistakes_of(PHILLY.replace("2951.0,16", "-3,16"))
    assert (mistake.field, mistake.line) == ("duration", 3)
