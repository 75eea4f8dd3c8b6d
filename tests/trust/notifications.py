"""Notifications while the server and the receiver are killed: every event arrives, in order, signed.

    python -m tests.trust.notifications [--jobs 48] [--rounds 19] [--real 40] [--kills 3]

Real jobs run to their ends; others wait for a job that never ends and are paused and resumed in turn, so that
each has many events. Meanwhile server and receiver are killed (SIGKILL) in turn and started again, and the
receiver refuses some messages. The truth is the server's own event log, read at the end. The last line of
output is one JSON object; the exit code is 1 if a message is missing, out of order or badly signed.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import free_port
from grus.api.wire_types.job import EventOut
from grus.controlplane.notifications.messages import NAMES
from grus.model.errors import Conflict
from grus.sdk.client import Client
from tests.server.process import PATIENCE, ServerProcess, eventually
from tests.waiting import poll

SECRET = "whsec_" + base64.b64encode(hashlib.sha256(b"notifications").digest()).decode()
REFUSE_EVERY = 37
"""Requests of which the receiver records one and then refuses it."""
DIES_AT = 5
"""A receiver that is started again ends after so many requests, between record and answer, once."""


class Receiver:
    """The receiving process; it is killed and started again on the same port and file."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.file = folder / "received.jsonl"
        self.file.touch()
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, die_at: int = 0) -> None:
        words = [
            "tests.trust.webhook_receiver",
            str(self.port),
            str(self.file),
            str(REFUSE_EVERY),
            str(die_at),
        ]
        self._process = subprocess.Popen([sys.executable, "-m", *words])

    def dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.kills += 1

    def received(self) -> list[dict[str, Any]]:
        """All whole records so far, in the order of their arrival."""
        return [json.loads(line) for line in self.file.read_bytes().split(b"\n")[:-1]]


@dataclass
class Plan:
    jobs: int
    rounds: int
    real: int
    kills: int
    """Kills of the server, and at least as many of the receiver."""

    @property
    def steps(self) -> int:
        return self.jobs * self.rounds


def configured(server: ServerProcess, port: int) -> None:
    server.home.mkdir(parents=True, exist_ok=True)
    server.places.config_file.write_text(
        "[server]\nrequests_per_second = 100000\n[[notifications.webhook]]\n"
        f'name = "hook"\nurl = "http://127.0.0.1:{port}/hook"\nsecret = "{SECRET}"\n'
    )


def work(client: Client, plan: Plan) -> Iterator[int]:
    """Do everything that makes events; yields after each step, so that somebody can be killed there."""
    blocker = client.submit({"name": "blocker", "run": ["sleep", "infinity"], **SMALL})
    waiting = [
        client.submit({"name": f"waits-{number}", "run": "true", "after": [blocker.id], **SMALL}).id
        for number in range(plan.jobs)
    ]
    ends = [
        client.submit({"name": f"ends-{number}", "run": "true" if number % 2 else "exit 3", **SMALL})
        for number in range(plan.real)
    ]
    step = 0
    for _ in range(plan.rounds):
        for id_ in waiting:
            with suppress(Conflict):  # the answer to the first try was lost with the server
                client.pause(id_)
            with suppress(Conflict):
                client.resume(id_)
            step += 1
            yield step
    for id_ in [*waiting, blocker.id]:
        with suppress(Conflict):
            client.stop(id_)
    for job in ends:
        job.wait(PATIENCE)
    blocker.wait(PATIENCE)


SMALL: dict[str, Any] = {"resources": {"gpu": 0}, "workdir": "/"}


def show(plan: Plan, folder: Path) -> dict[str, Any]:
    """Run it all and count."""
    began, cpu = time.monotonic(), os.times()
    server, receiver = ServerProcess(folder / "home"), Receiver(folder)
    configured(server, receiver.port)
    killed = 0
    turns = {plan.steps * turn // (2 * plan.kills + 1): turn for turn in range(1, 2 * plan.kills + 1)}
    try:
        receiver.start()
        server.start()
        with server.client() as client:
            for step in work(client, plan):
                turn = turns.get(step)
                if turn is None:
                    continue
                if turn % 2:
                    receiver.kill()  # down until the next turn, while events come
                    continue
                server.kill()
                killed += 1
                server.start()
                receiver.start(die_at=DIES_AT)
                # It dies with a record that it has not answered for; the message comes again.
                eventually(receiver.dead, "the receiver dies between a record and its answer")
                receiver.kill()
                receiver.start()
            expected = announced(client)
        everything = {event.seq for event in expected}
        poll(lambda: everything <= {seq_of(one) for one in receiver.received()}, PATIENCE)
    finally:
        receiver.kill()
        server.end()
    used = os.times()
    seconds = {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(sum(used[:4]) - sum(cpu[:4]), 1),
    }
    kills = {"server_kills": killed, "receiver_kills": receiver.kills - 1}  # the last one ends the run
    return {**counted(expected, receiver.received()), **kills, **seconds}


def announced(client: Client) -> list[EventOut]:
    """All events of the log that a receiver of everything must get."""
    found: list[EventOut] = []
    while page := client.events(after=found[-1].seq if found else 0):
        found += page
    return [event for event in found if event.kind in NAMES]


def seq_of(record: dict[str, Any]) -> int:
    return int(record["headers"]["webhook-id"].partition("-")[0])


def counted(expected: list[EventOut], records: list[dict[str, Any]]) -> dict[str, Any]:
    """Arrived messages compared with the event log."""
    arrived = [seq_of(one) for one in records]
    times, owner = Counter(arrived), {event.seq: event.job for event in expected}
    last: dict[str | None, int] = {}
    disordered = 0
    for seq in arrived:
        job = owner.get(seq)
        disordered += seq < last.get(job, 0)  # a repeat is of the last one, or it is out of order
        last[job] = max(seq, last.get(job, 0))
    return {
        "events": len(expected),
        "jobs": len({event.job for event in expected}),
        "kinds": dict(Counter(event.kind for event in expected)),
        "arrived": sum(seq in times for seq in owner),
        "missing": sum(seq not in times for seq in owner),
        "unexpected": sum(seq not in owner for seq in times),
        "repeats": sum(times.values()) - len(times),
        "out_of_order": disordered,
        "bad_signatures": sum(not signed(one) for one in records),
    }


def signed(record: dict[str, Any]) -> bool:
    """Check a signature as a receiver does that has read docs/notifications.md alone."""
    headers, body = record["headers"], base64.b64decode(record["body"])
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    same_id = json.loads(body)["id"] == headers["webhook-id"]
    return same_id and hmac.compare_digest(headers["webhook-signature"], f"v1,{wanted}")


def broken(found: dict[str, Any]) -> bool:
    return any(found[name] for name in ("missing", "unexpected", "out_of_order", "bad_signatures"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=19)
    parser.add_argument("--real", type=int, default=40)
    parser.add_argument("--kills", type=int, default=3)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="grus-notifications-") as folder:
        found = show(Plan(told.jobs, told.rounds, told.real, told.kills), Path(folder))
    print(json.dumps(found))
    return int(broken(found))


if __name__ == "__main__":
    sys.exit(main())
