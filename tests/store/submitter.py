"""A process that submits jobs from several threads and prints each id once the store has confirmed it.

    python submitter.py FILE FIRST THREADS [TOGETHER]

With TOGETHER, so many jobs are created in one write, and the id of the first is printed.
Run by the durability tests, which kill it.
"""

import os
import sys
import threading
from itertools import count

from grus.model.interfaces import NewJob
from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event


def submit(store: SqliteStore, numbers: "count[int]") -> None:
    for number in numbers:
        job = store.create(a_job(f"j{number}"), an_event(), key=f"k{number}").result()
        os.write(1, f"{job.id}\n".encode())


def submit_together(store: SqliteStore, numbers: "count[int]", together: int) -> None:
    for number in numbers:
        new = [NewJob(a_job(f"j{number}-{n}"), an_event(), f"k{number}-{n}") for n in range(together)]
        os.write(1, f"{store.create_all(new).result()[0].id}\n".encode())


def main() -> None:
    path, (first, threads, *together) = sys.argv[1], map(int, sys.argv[2:])
    store = SqliteStore(path)
    work = submit_together if together else submit
    for n in range(threads):
        threading.Thread(target=work, args=(store, count(first + n, threads), *together)).start()


if __name__ == "__main__":
    main()
