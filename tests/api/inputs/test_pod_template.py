"""What jobs say of their pods: judged, kept in one form, laid over each other."""

import pytest

from grus.api.inputs import pod_template as pods
from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import read
from grus.model.errors import BadInput


def test_equal_parts_have_equal_texts_and_come_back_as_they_were() -> None:
    one = {"spec": {"tolerations": [{"key": "spot"}], "priorityClassName": "low"}}
    other = {"spec": {"priorityClassName": "low", "tolerations": [{"key": "spot"}]}}
    assert pods.text(one) == pods.text(other)
    assert pods.of_text(pods.text(one)) == one
    assert (pods.text({}), pods.of_text("")) == ("", {})


def test_what_is_above_wins_and_lists_go_by_name() -> None:
    below = {
        "metadata": {"labels": {"a": "1", "b": "1"}},
        "spec": {
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "spot"}],
            "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}],
        },
    }
    above = {
        "metadata": {"labels": {"b": "2"}},
        "spec": {
            "volumes": [{"name": "data", "readOnly": True}, {"name": "more"}],
            "tolerations": [{"key": "spot"}, {"key": "gpu"}],
            "containers": [{"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]}],
        },
    }
    assert pods.merged(below, above) == {
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {
            "volumes": [{"name": "data", "emptyDir": {}, "readOnly": True}, {"name": "more"}],
            "tolerations": [{"key": "spot"}, {"key": "gpu"}],
            "containers": [
                {"name": "main", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]}
            ],
        },
    }


def test_mounts_go_by_their_paths_and_variables_and_words_are_replaced() -> None:
    below = {
        "command": ["a", "b"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "volumeMounts": [{"name": "data", "mountPath": "/a"}],
    }
    above = {
        "command": ["b"],
        "env": [{"name": "A", "valueFrom": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/b"}, {"mountPath": "/a", "readOnly": True}],
    }
    assert pods.merged(below, above) == {
        "command": ["b"],
        "env": [{"name": "A", "valueFrom": {}}, {"name": "B", "value": "1"}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/a", "readOnly": True},
            {"name": "data", "mountPath": "/b"},
        ],
    }


def test_a_role_may_say_more_than_its_job() -> None:
    job = {
        "image": "team/torch:2",
        "pod": {"spec": {"hostIPC": True}},
        "roles": {"worker": {"run": "a", "image": "team/torch:3", "pod": {"spec": {"volumes": []}}}},
    }
    spec = to_spec(read(JobIn, job))
    assert (spec.image, spec.request.roles[0].image) == ("team/torch:2", "team/torch:3")
    assert spec.pod == '{"spec":{"hostIPC":true}}'
    assert spec.request.roles[0].pod == '{"spec":{"volumes":[]}}'


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"spec": {"x": "y" * 70_000}}, "64 KiB"),
        ({"spec": {"x": float("nan")}}, "JSON"),
        ("nodeName", "mapping"),
        ({"spec": []}, "mapping"),
        ({"spec": {"containers": "main"}}, "list of containers"),
    ],
)
def test_what_cannot_be_part_of_a_pod_is_refused(pod: object, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(JobIn, {"run": "a", "pod": pod})


def test_a_part_that_is_nested_without_end_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(3000):
        deep = {"x": deep}
    with pytest.raises(BadInput, match="levels deep"):
        read(JobIn, {"run": "a", "pod": {"spec": deep}})
