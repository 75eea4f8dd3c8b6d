"""The large world is what it says: a full pool, jobs that wait for it, and a past."""

import json
import urllib.request
from collections import Counter
from pathlib import Path

from grus.model.jobs import Phase
from tests.dashboard.large import built, served


def test_a_small_large_world_is_full_and_has_a_past_and_a_line(tmp_path: Path) -> None:
    with built(tmp_path, gpus=64, jobs=300) as world:
        counts = Counter(world.store.count())
        assert counts.total() == 300
        assert counts[Phase.RUNNING] > 30
        assert counts[Phase.PENDING] > 10
        assert counts[Phase.SUCCEEDED] > 100
        assert any(tag.kind.value == "training" for tag in world.services.pool.tags().values())


def test_what_ends_in_the_large_world_makes_room_for_what_waits(tmp_path: Path) -> None:
    with built(tmp_path, gpus=64, jobs=200) as world:
        events, waiting = world.services.jobs.last_event, world.store.count()[Phase.PENDING]
        heard: list[Phase] = []
        world.store.subscribe(lambda written: heard.extend(job.phase for job, _ in written))
        for job in world.running()[:10]:
            world.finish(job.id)
        while world.store.count()[Phase.PENDING] >= waiting:
            assert world.loop.pulse.troubles == 0
        assert Phase.SUCCEEDED in heard
        assert world.services.jobs.last_event > events


def test_the_large_world_answers_over_http(tmp_path: Path) -> None:
    with built(tmp_path, gpus=16, jobs=40) as world, served(world) as address:
        asked = urllib.request.Request(
            f"{address}/v1/status", headers={"Authorization": "Bearer admin-token"}
        )
        with urllib.request.urlopen(asked, timeout=300) as answer:
            assert json.load(answer)["pool"]["gpus"] == 16
