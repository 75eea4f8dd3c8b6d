"""A launcher that hands out tasks, and workers that ask it for them: both sides of one gang."""

import os
import socket
import sys
import time

MASTER = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
TASKS = 24
PATIENCE = 60.0


def launch() -> None:
    """One connection a task: `done N` or `ready` comes in, the next number (or `end`) goes out."""
    waiting, done = list(range(TASKS)), set()
    with socket.create_server(MASTER) as server:
        server.settimeout(PATIENCE)
        while len(done) < TASKS:
            worker, _ = server.accept()
            with worker:
                word, _, task = worker.recv(64).decode().partition(" ")
                if word == "done":
                    done.add(int(task))
                worker.sendall(str(waiting.pop(0) if waiting else "end").encode())
    print(f"all {TASKS} tasks are done", flush=True)


def work() -> None:
    report, mine = "ready", 0
    while (task := ask(report)) not in ("end", ""):
        mine += sum(x * x for x in range(200_000)) > 0
        report = f"done {task}"
    print(f"worker {os.environ.get('RANK', '?')}: {mine} tasks were mine", flush=True)


def ask(report: str) -> str:
    """The launcher's answer; before it listens, try again, and once it is gone there is nothing left."""
    for _ in range(1000 if report == "ready" else 1):
        try:
            with socket.create_connection(MASTER, timeout=PATIENCE) as launcher:
                launcher.sendall(report.encode())
                return launcher.recv(64).decode()
        except ConnectionError:
            time.sleep(0.05)
    return ""


if __name__ == "__main__":
    launch() if sys.argv[1:] == ["launcher"] else work()
