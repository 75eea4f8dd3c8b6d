import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.api.parsing.validation_errors import read
from grus.model.errors import BadInput, Mistake
from tests.api.bad_inputs import BAD_JOB_FILES, BAD_REQUESTS, BadJob


def _by_name(one: BadJob) -> str:
    return one.name


def _assert_told(one: BadJob, told: list[Mistake], *, lines: bool) -> None:
    listed = "\n".join(map(str, told))
    for expected in one.mistakes:
        matching = [
            mistake for mistake in told if mistake.field == expected.field and expected.words in mistake.rule
        ]
        assert matching, f"{expected} is not told:\n{listed}"
        if lines:
            assert expected.line in [mistake.line for mistake in matching], (
                f"{expected} has another line:\n{listed}"
            )
    assert len(told) == len(one.mistakes), f"more is told than is wrong:\n{listed}"


def test_the_table_is_large_enough_and_its_names_are_unique() -> None:
    assert len(BAD_JOB_FILES) >= 45
    assert len({one.name for one in BAD_JOB_FILES}) == len(BAD_JOB_FILES)


@pytest.mark.parametrize("one", BAD_JOB_FILES, ids=_by_name)
def test_every_mistake_of_a_bad_job_file_is_told_with_its_line(one: BadJob) -> None:
    with pytest.raises(BadInput) as caught:
        parse_job_file(one.text, folder="/somewhere")
    _assert_told(one, caught.value.mistakes, lines=True)


@pytest.mark.parametrize("one", BAD_REQUESTS, ids=_by_name)
def test_the_same_mistakes_are_told_of_the_same_job_as_a_request(one: BadJob) -> None:
    with pytest.raises(BadInput) as caught:
        read(JobIn, one.request())
    _assert_told(one, caught.value.mistakes, lines=False)


@pytest.mark.parametrize("one", BAD_JOB_FILES, ids=_by_name)
def test_values_shown_are_short_and_on_one_line(one: BadJob) -> None:
    with pytest.raises(BadInput) as caught:
        parse_job_file(one.text, folder="/somewhere")
    for mistake in caught.value.mistakes:
        assert len(mistake.value) <= 80
        assert len(mistake.field) <= 200
        assert "\n" not in str(mistake)
