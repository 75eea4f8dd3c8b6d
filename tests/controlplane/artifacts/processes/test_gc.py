"""What the record names stays in the vaults, the rest goes: by real sweeps of real vaults."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.controlplane.artifacts.gc import Collector
from grus.model.artifacts import Artifact, Input, Output
from grus.model.identifiers import JobId
from grus.model.interfaces import RESULTS
from grus.model.jobs import JobType, Phase
from grus.model.results import Result
from tests.artifacts.builders import a_folder, a_vault
from tests.controlplane.plane import ANN, Plane, a_spec

DAY = 86_400.0


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(state=tmp_path / "state")
    yield made
    made.close()


def collector(plane: Plane) -> Collector:
    return Collector(plane.store, plane.settings, plane.loop.picture.vaults)


def a_thing(plane: Plane, folder: Path, name: str, age: float) -> tuple[ArtifactStore, Artifact]:
    """Kept in Ann's vault, and last used so many seconds ago."""
    vault = a_vault(plane.loop.picture.vaults.place(ANN.name))
    manifest = keep(vault, a_folder(folder / name, {"file": name.encode()}))
    for path in vault.root.glob("*/*/*"):
        if manifest.digest.endswith(path.name) or path.name in {one[2:] for one in manifest.chunks}:
            at = path.stat().st_mtime - age
            os.utime(path, (at, at))
    return vault, Artifact("data", manifest.digest, manifest.size)


def a_record(plane: Plane, artefact: Artifact) -> JobId:
    """An ended job of Ann's that left this behind."""
    job = plane.submit("made", outputs=(Output("data"),))
    told = [["data", artefact.digest, artefact.size]]
    plane.engine.reports(job, json.dumps({"artefacts": told}))
    plane.do(lambda: plane.engine.exit(job))
    assert plane.job(job).artefacts == (artefact,)
    return job


def test_what_a_job_a_result_or_a_waiting_job_names_stays_and_the_rest_goes(
    plane: Plane, tmp_path: Path
) -> None:
    vault, of_job = a_thing(plane, tmp_path, "job", 2 * DAY)
    _, of_result = a_thing(plane, tmp_path, "result", 2 * DAY)
    _, old = a_thing(plane, tmp_path, "old", 60 * DAY)
    _, taken = a_thing(plane, tmp_path, "taken", 60 * DAY)
    _, unnamed = a_thing(plane, tmp_path, "unnamed", 2 * DAY)
    _, young = a_thing(plane, tmp_path, "young", 0.0)
    a_record(plane, of_job)
    a_record(plane, old)
    maker = a_record(plane, taken)
    blocker = plane.submit("blocker")
    waits = replace(a_spec("waits", inputs=(Input("d", maker, "data"),)), after=(maker, blocker))
    plane.services.actions.submit(ANN, waits).result()
    vault.used(taken.digest)
    os.utime(vault.root / "manifests" / taken.digest[:2] / taken.digest[2:], (1.0, 1.0))
    plane.store.put(
        RESULTS,
        Result(
            job=JobId("jgone"),
            name="gone",
            user=ANN.name,
            queue=waits.queue,
            type=JobType.TRAIN,
            phase=Phase.SUCCEEDED,
            submitted_at=1.0,
            started_at=1.0,
            ended_at=2.0,
            outputs=(of_result,),
        ),
    ).result()
    assert collector(plane).collect() > 0
    assert {digest for digest, _ in vault.kept("manifests")} == {
        one.digest for one in (of_job, of_result, taken, young)
    }
    assert all(vault.whole(one.digest) for one in (of_job, of_result, taken, young))
    assert not vault.whole(old.digest)
    assert not vault.whole(unnamed.digest)


def test_a_collector_that_is_closed_sweeps_no_more(plane: Plane, tmp_path: Path) -> None:
    vault, unnamed = a_thing(plane, tmp_path, "unnamed", 2 * DAY)
    closed = collector(plane)
    closed.close()
    assert closed.collect() == 0
    assert vault.whole(unnamed.digest)


def test_where_nothing_was_ever_left_behind_there_is_nothing_to_sweep(plane: Plane) -> None:
    assert collector(plane).collect() == 0


def test_an_artefact_that_a_job_is_about_to_take_becomes_young_at_its_submit(
    plane: Plane, tmp_path: Path
) -> None:
    vault, taken = a_thing(plane, tmp_path, "taken", 60 * DAY)
    maker = a_record(plane, taken)
    spec = replace(a_spec("takes", inputs=(Input("d", maker, "data"),)), after=(maker,))
    plane.services.actions.submit(ANN, spec).result()
    ((_, at),) = vault.kept("manifests")
    assert at > 59 * DAY
    assert vault.whole(taken.digest)


def test_nodes_that_have_an_input_in_their_cache_are_known(plane: Plane, tmp_path: Path) -> None:
    from grus.artifacts.cache import fetch
    from grus.controlplane.workers.artifact_inputs_outputs import cache_name
    from grus.model.identifiers import NodeId

    vault, kept = a_thing(plane, tmp_path, "data", 0.0)
    maker = a_record(plane, kept)
    spec = a_spec("takes", inputs=(Input("d", maker, "data"),))
    nodes = (NodeId("a"), NodeId("b"))
    vaults = plane.loop.picture.vaults
    assert vaults.near(ANN.name, spec, nodes) == {}
    fetch(vault, cache_name(nodes[1]), kept.digest, 1 << 20).give_back()
    assert vaults.near(ANN.name, spec, nodes) == {nodes[1]: kept.size}
    assert vaults.holds(ANN.name, kept)
    assert not vaults.holds(ANN.name, replace(kept, digest="0" * 64))
