"""How long an order takes to reach a worker on a real node, and its bell to reach who looks at its pod.

    python -m tests.kubernetes.agent_latency [ROUNDS]

Starts a cluster of its own and prints one JSON line: median, 99th percentile and worst, in milliseconds.
"""

import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack

from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import PODS
from grus.kubernetes.names import CONTROL, SAID
from tests.kubernetes import agents
from tests.kubernetes.clusters import PATIENCE, new_namespace, shared

ECHO = """
import os, time
from grus.sdk import worker
seen = None
while seen != "end":
    try:
        now = open(os.environ["GRUS_CONTROL"]).read()
    except FileNotFoundError:
        now = None
    if now != seen:
        seen = now
        worker.tell(heard=seen, clock=time.time())
        worker.ring()
    time.sleep(0.001)
"""


class Listener:
    """What the worker has heard, as its pod says it, and when that came here."""

    def __init__(self) -> None:
        self.change = threading.Condition()
        self.heard: dict[str, tuple[float, float]] = {}

    def __call__(self, event: str, pod: Object) -> None:
        said = pod["metadata"].get("annotations", {}).get(SAID)
        if said:
            line = json.loads(said)
            with self.change:
                self.heard.setdefault(line["heard"], (line["clock"], time.time()))
                self.change.notify_all()

    def wait(self, text: str) -> tuple[float, float]:
        with self.change:
            assert self.change.wait_for(lambda: text in self.heard, PATIENCE), f"{text} was never heard"
            return self.heard[text]


def measure(api: Api, namespace: str, rounds: int) -> dict[str, object]:
    """Of one worker, one order after the other."""
    listener = Listener()
    pod = agents.a_worker("echo", "", node="node1", notes={CONTROL: "begin"})
    pod["spec"]["containers"][0]["command"] = [sys.executable, "-c", ECHO]
    made = time.time()
    api.create(PODS, pod, namespace)
    down, up = [], []
    with Reflector(api, PODS, namespace=namespace, on_change=listener):
        began, _ = listener.wait("begin")
        for number in range(rounds):
            asked, text = time.time(), f"order {number}"
            api.patch(PODS, "echo", {"metadata": {"annotations": {CONTROL: text}}}, namespace)
            seen, told = listener.wait(text)
            down.append(1000 * (seen - asked))
            up.append(1000 * (told - seen))
            time.sleep(0.11)  # a bell rests for 0.1 s: its pause is no part of what is measured
    api.delete(PODS, "echo", namespace, grace=0)
    return {
        "rounds": rounds,
        "made_to_running_s": round(began - made, 2),
        **figures("order_ms", down),
        **figures("bell_ms", up),
    }


def figures(name: str, values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"{name}_p50": round(statistics.median(ordered), 1),
        f"{name}_p99": round(ordered[int(0.99 * (len(ordered) - 1))], 1),
        f"{name}_max": round(ordered[-1], 1),
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with ExitStack() as stack:
        cluster = stack.enter_context(shared("latency", "--nodes", "1", "--gpus", "1"))
        api = Api.connect(cluster.kubeconfig)
        stack.callback(api.close)
        agents.install(api, 1)
        client = stack.enter_context(cluster.client())
        namespace = stack.enter_context(new_namespace(client))
        print(json.dumps(measure(api, namespace, rounds)))


if __name__ == "__main__":
    main()
