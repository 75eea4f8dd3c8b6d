"""`grus ps --tree` and `grus retry`: what is asked of the server and what people see."""

import json
from pathlib import Path

from grus.api.wire_types.job import JobOut
from grus.api.wire_types.workflow import GraphOut, GraphStageOut
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job


def stage(name: str, *after: str, depth: int) -> GraphStageOut:
    phase = "succeeded" if name == "prepare" else "running"
    job = a_job(f"j-{name}", name=name, graph="j-prepare", phase=phase)
    return GraphStageOut(job=job, after=tuple(f"j-{one}" for one in after), depth=depth)


GRAPH = GraphOut(
    id="j-prepare",
    stages=(
        stage("prepare", depth=0),
        stage("statistics", "prepare", depth=1),
        stage("train", "prepare", depth=1),
        stage("evaluate", "train", "statistics", depth=2),
        stage("export", "train", depth=2),
    ),
)


def known(client: FakeClient) -> list[JobOut]:
    client.graphs = {"j-prepare": GRAPH}
    client.known = [a_job("j-alone", name="alone"), *(one.job for one in reversed(GRAPH.stages))]
    return client.known


def test_the_tree_shows_every_stage_below_one_that_it_comes_after(grus: Grus, client: FakeClient) -> None:
    known(client)
    lines = grus("ps", "--tree").output.splitlines()
    names = [line[lines[0].index("NAME") : lines[0].index("QUEUE")].rstrip() for line in lines[1:]]
    assert names == [
        "alone",
        "prepare",
        "├─ statistics",
        "└─ train",
        "   ├─ evaluate (also after statistics)",
        "   └─ export",
    ]
    assert client.asked.count(("graph", "j-export")) == 1
    assert [ask for ask in client.asked if ask[0] == "graph"] == [("graph", "j-export")]


def test_the_tree_as_json_is_a_list_of_graphs(grus: Grus, client: FakeClient) -> None:
    known(client)
    alone, graph = json.loads(grus("ps", "--tree", "-o", "json").output)
    assert [one["job"]["name"] for one in alone["stages"]] == ["alone"]
    assert graph["stages"][3]["after"] == ["j-train", "j-statistics"]


def test_retry_tells_what_was_submitted(grus: Grus, client: FakeClient) -> None:
    known(client)
    assert "j0000000009  again" in grus("retry", "train").output
    assert ("retry", "j-train") in client.asked


def test_stages_are_run_whatever_was_run_before_if_that_is_asked_for(
    grus: Grus, client: FakeClient, tmp_path: Path
) -> None:
    file = tmp_path / "stages.yaml"
    file.write_text("stages:\n  a: {run: x, outputs: [d]}\n  b: {run: y, inputs: {d: a.d}}\n")
    grus("submit", str(file))
    assert not client.fresh
    grus("submit", str(file), "--fresh")
    assert client.fresh
