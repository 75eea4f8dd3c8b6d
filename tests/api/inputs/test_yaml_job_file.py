import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.model.errors import BadInput
from grus.model.identifiers import JobId

FOLDER = "/home/ada/project"


def one(text: str) -> JobIn:
    (job,) = parse_job_file(text, folder=FOLDER)
    return job


def test_a_job_runs_in_the_folder_of_its_file_unless_it_says_where() -> None:
    assert one("run: a\n").workdir == FOLDER
    assert one("run: a\nworkdir: sub/../other\n").workdir == f"{FOLDER}/other"
    assert one("run: a\nworkdir: /srv/x/\n").workdir == "/srv/x"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("python train.py --lr 1", "train"),
        ("[python3.11, -u, src/My_Script.py]", "my-script"),
        ("bash -c true", "true"),
        ("A=1 ./go.sh", "go"),
        ("'***'", "train"),
    ],
)
def test_a_job_without_a_name_is_named_after_what_it_runs(run: str, name: str) -> None:
    assert one(f"run: {run}\n").name == name


def test_words_that_yaml_1_1_would_change_stay_as_they_are_written() -> None:
    job = one(
        "run: [python, train.py, --lr, 1e-3, --version, 1.10, --flag, yes, --at, 12:30]\n"
        "name: 2024-01-01\nqueue: no\n"
        "env: {COUNTRY: no, SWITCH: on, VERSION: 1.10, OCTAL: 010, BIG: 1_000, TRUTH: true, HEX: 0x1F}\n"
    )
    assert list(job.run or ()) == [
        "python",
        "train.py",
        "--lr",
        "1e-3",
        "--version",
        "1.10",
        "--flag",
        "yes",
        "--at",
        "12:30",
    ]
    assert (job.name, job.queue) == ("2024-01-01", "no")
    assert job.env == {
        "COUNTRY": "no",
        "SWITCH": "on",
        "VERSION": "1.10",
        "OCTAL": "010",
        "BIG": "1_000",
        "TRUTH": "true",
        "HEX": "0x1F",
    }


def test_several_documents_are_stages_and_may_name_earlier_ones() -> None:
    jobs = parse_job_file(
        "name: a\nrun: x\n---\nname: b\nrun: y\nafter: [a, j0123456789]\n---\n# nothing\n", folder=FOLDER
    )
    assert [job.name for job in jobs] == ["a", "b"]
    assert list(jobs[1].after) == ["a", "j0123456789"]


def test_json_is_read_too_even_where_it_is_no_yaml() -> None:
    data = {"run": "echo \U0001f600", "resources": {"gpu": "2..4"}, "env": {"A": "b/c"}}
    assert one(json.dumps(data)).run == data["run"]
    assert one(json.dumps(data, indent="\t")).env == data["env"]


def test_json_with_a_key_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="twice"):
        one('{"run": "\\ud83d\\ude00", "run": "b"}')


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    assert one("\ufeffrun: a\r\nqueue: b\r\n").queue == "b"


def test_an_alias_may_repeat_a_value() -> None:
    job = one("run: a\nenv: &e {A: '1'}\nnode_selector: *e\n")
    assert job.node_selector == {"A": "1"}


def test_a_job_read_from_a_file_is_the_same_after_a_journey_as_json() -> None:
    job = one(
        "run: [a, b]\nresources: {gpu: 2..8, sizes: [2, 8]}\n"
        "idle: {below: 5%, for: 10m}\nafter: [j012345678z]"
    )
    again = JobIn.model_validate_json(job.model_dump_json(exclude_unset=True))
    assert again == job
    assert to_spec(again) == to_spec(job)


def judge(text: str | bytes) -> None:
    """Any input ends in jobs or in BadInput with mistakes; anything else fails the test."""
    refusal: BadInput | None = None
    jobs: list[JobIn] = []
    try:
        jobs = parse_job_file(text, folder=FOLDER)
    except BadInput as error:
        refusal = error
    if refusal is None:
        assert jobs
        for job in jobs:
            to_spec(job, after=dict.fromkeys(job.after, JobId("j0123456789")))
        return
    assert refusal.mistakes
    assert all(mistake.field and mistake.rule for mistake in refusal.mistakes)
    str(refusal).encode()


KEYS = st.sampled_from(
    [*JobIn.field_names(), "gpu", "sizes", "cpu", "path", "grace", "for", "below", "replicas", "x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2..8", "0.5", "A100:4", "30m", "10%", "12GB", "train", "dev", "once", "\ud800", "\0"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4)
    ),
)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    judge(text)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    judge(data)


@given(st.from_regex(r"(run|env|roles|&a|\*a|<<|[-:?\[\]{},|>!%@`'\"# \n\t]){0,40}", fullmatch=True))
def test_any_yaml_like_text_is_read_or_refused(text: str) -> None:
    judge(text)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_any_mapping_is_read_or_refused(value: dict[str, object]) -> None:
    judge(yaml.safe_dump(value, allow_unicode=True) if _writable(value) else json.dumps(value))
    judge(json.dumps(value))


def _writable(value: object) -> bool:
    return "\\ud800" not in json.dumps(value)
