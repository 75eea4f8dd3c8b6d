"""A process that submits jobs from several threads and prints each id once the store has confirmed it.

    python submitter.py FILE FIRST THREADS

Run by the durability tests, which kill it.
"""

import os
import sys
import threading
from itertools import count

from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event


def submit(store: SqliteStore, numbers: "count[int]") -> None:
    for number in numbers:
        job = store.create(a_job(f"j{number}"), an_event(), key=f"k{number}").result()
        os.write(1, f"{job.id}\n".encode())


def main() -> None:
    path, first, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    store = SqliteStore(path)
    for n in range(threads):
        threading.Thread(target=submit, args=(store, count(first + n, threads))).start()


if __name__ == "__main__":
    main()
