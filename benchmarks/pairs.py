"""Two jobs on one pretended GPU, measured by the product and by what the jobs wrote down of their steps.

    python -m benchmarks.pairs

A real server with three GPUs and real processes; on each GPU a pair, whose jobs were seen alone before:

- *gains*: a fifth computing, the rest waiting. They do not disturb each other.
- *loses*: the same, but each step needs something for itself that no utilisation shows. Tried, and parted.
- *full*: nearly always computing. It is never tried.

The gain of a pair is the sum of both speeds, relative to having the GPU alone; taking turns gives 1. The last
line is one JSON object.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.grus_server import GrusServer
from benchmarks.machine import facts, wait_for
from grus.api.wire_types.timestamps import parse_time

PATIENCE = 180.0
SEEN = 300
"""Steps that a job makes alone: half a minute, in which its reports are looked at a few times."""
WATCHED = 60.0
"""Seconds for which the pairs are looked at after the first verdicts: who stays, stays."""
PROGRAM = Path(__file__).with_name("pairs_program.py")
NODES = ("node-0", "node-1", "node-2")


@dataclass(slots=True)
class Pair:
    """Two jobs on one node."""

    server: GrusServer
    name: str
    node: str
    arguments: tuple[str, ...]
    ids: dict[str, str] = field(default_factory=dict)

    def submit(self, who: str) -> None:
        command = [sys.executable, str(PROGRAM), str(self._log(who)), *self.arguments]
        self.ids[who] = self.server.submit(
            {
                "name": f"{self.name}-{who}",
                "run": command,
                "resources": {"gpu": 1, "share": "auto"},
                "checkpoint": {"path": "steps", "grace": "5s"},
                "affinity": {"avoid_nodes": [node for node in NODES if node != self.node]},
                "workdir": str(self.server.root),
            }
        )

    def _log(self, who: str) -> Path:
        return self.server.root / f"{self.name}-{who}.steps"

    def tell(self, who: str, verb: str) -> None:
        self.server.connection().ask("POST", f"/v1/jobs/{self.ids[who]}/{verb}")

    def job(self, who: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._get(f"/v1/jobs/{self.ids[who]}"))
        return found

    def seen(self, who: str) -> bool:
        """Whether it has made enough steps, and its use of the GPU was recognised."""
        job = self.job(who)
        return job["tag"] is not None and self._log(who).exists() and self._steps(who) >= SEEN

    def _steps(self, who: str) -> int:
        return len(self._log(who).read_text().split())

    def events(self, who: str, kind: str) -> list[dict[str, Any]]:
        told = json.loads(self._get(f"/v1/events?job={self.ids[who]}&limit=1000"))
        return [event for event in told if event["kind"] == kind]

    def _get(self, path: str) -> bytes:
        status, answer = self.server.connection().ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {answer[:300]!r}")
        return answer

    def together(self) -> tuple[float, float] | None:
        """From when until when both made steps on the GPU; None if they never did."""
        shared = self.events("host", "shared")
        if not shared:
            return None
        begun = [at for at in map(_at, self.events("guest", "running")) if at > _at(shared[0])]
        if not begun:
            return None
        begin = begun[0]
        parted = [_at(event) for event in self.events("guest", "pausing") if _at(event) > begin]
        return begin + 1.0, parted[0] if parted else time.time()

    def true_gain(self) -> float | None:
        """By what both wrote down."""
        both = self.together()
        if both is None:
            return None
        left = _at(self.events("guest", "pausing")[0])
        shrunk = _at(self.events("host", "shared")[0])
        alone = self._speed("guest", 0.0, left), self._speed("host", 0.0, shrunk)
        return self._speed("guest", *both) / alone[0] + self._speed("host", *both) / alone[1]

    def measured_gain(self) -> float | None:
        """As the product tells it."""
        pairs = [
            pair["gain"]
            for profile in json.loads(self._get("/v1/profiles"))
            for pair in profile["pairs"]
            if profile["name"] == f"{self.name}-guest"
        ]
        return pairs[-1] if pairs else None

    def _speed(self, who: str, since: float, until: float) -> float:
        """Steps a second in this time."""
        moments = [float(word) for word in self._log(who).read_text().split()]
        inside = [moment for moment in moments if since < moment < until]
        return (len(inside) - 1) / (inside[-1] - inside[0])


def _at(event: dict[str, Any]) -> float:
    return parse_time(event["at"])


def measure(server: GrusServer) -> dict[str, Pair]:
    turn = ("--turn", str(server.root / "turn"))
    pairs = {
        "gains": Pair(server, "gains", NODES[0], ()),
        "loses": Pair(server, "loses", NODES[1], turn),
        "full": Pair(server, "full", NODES[2], ("--compute", "0.1", "--wait", "0.0")),
    }
    _say("first of each pair, alone")
    for pair in pairs.values():
        pair.submit("guest")
    for pair in pairs.values():
        wait_for(lambda: pair.seen("guest"), PATIENCE, f"{pair.name}: what the first takes of a GPU")  # noqa: B023 - called at once
        pair.tell("guest", "pause")
    for pair in pairs.values():
        wait_for(lambda: pair.job("guest")["phase"] == "paused", PATIENCE, "the first to leave")  # noqa: B023 - called at once
        pair.submit("host")
        wait_for(lambda: pair.job("host")["phase"] == "running", PATIENCE, "the second to run")  # noqa: B023 - called at once
    for pair in pairs.values():
        pair.tell("guest", "resume")
    _say("second of each pair, alone, and then both")
    for name in ("gains", "loses"):
        wait_for(lambda: pairs[name].together() is not None, PATIENCE, f"{name}: both on one GPU")  # noqa: B023 - called at once
    wait_for(lambda: bool(pairs["gains"].events("guest", "measured")), PATIENCE, "a pair to be measured")
    wait_for(lambda: pairs["loses"].job("guest")["phase"] == "paused", PATIENCE, "a pair to be parted")
    _say(f"{WATCHED:.0f} s more")
    time.sleep(WATCHED)
    return pairs


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def figures(pairs: dict[str, Pair]) -> dict[str, object]:
    """Who gained what, and whether they are together at the end."""
    found: dict[str, object] = {}
    for name, pair in pairs.items():
        for what, gain in (("measured", pair.measured_gain()), ("true", pair.true_gain())):
            found[f"{name}_{what}"] = None if gain is None else round(gain, 2)
        found[f"{name}_together"] = pair.job("guest")["guest_of"] is not None
        found[f"{name}_host_restarts"] = pair.job("host")["attempt"] - 1
    both = pairs["loses"].together()
    found["seconds_until_parted"] = None if both is None else round(both[1] - both[0] + 1.0, 1)
    return found


def main() -> None:
    machine = facts()
    with GrusServer("3x1x1GB") as server:
        found = figures(measure(server))
        server.stop_jobs()
    print(json.dumps({**found, "machine": machine}))


if __name__ == "__main__":
    main()
