"""Upgrade, examination, back-up and restore: `python -m tests.trust.upgrades [--backups 3]`, one JSON line.

- A file of each released schema opens with all that it holds; a server goes on with the oldest.
- A file of a newer Grus is refused by `grus up`, with a sentence, and left as it was.
- Back-ups are made while clients submit. Each is examined, and holds every job that was acknowledged before
  it began; the last one is restored elsewhere, and a server goes on with it.
- Every damage of `tests.trust.damages`, planted in a state that was really used, is found by `grus fsck`; the
  state itself is clean.
- A restore that is killed, or loses its power, before any of its operations leaves the old state or the new
  one (`restore_deaths`).

Longer: more back-ups.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grus.api.wire_types.job import JobOut
from grus.controlplane.integrity.check import check
from grus.sdk.client import Client
from grus.server.backup.create import back_up
from grus.server.backup.restore import restore
from grus.store.migrations import STEPS
from grus.store.sqlite import SqliteStore
from tests.live.pool import LivePool
from tests.server.process import ServerProcess, eventually
from tests.store import released
from tests.trust import preloading, restore_deaths
from tests.trust.damages import DAMAGES, Damage
from tests.trust.used_state import WAITS, a_used_pool, examined, use

SUBMITTERS = 4
AHEAD = 20
"""Jobs that must be acknowledged between two back-ups, so that there is load."""
PATIENCE = 300.0


@dataclass(slots=True)
class Figures:
    schemas: int = 0
    opened: int = 0
    """Of those: with all that they held, clean, and in the latest shape."""
    newer_refused: bool = False
    backups: int = 0
    acknowledged: int = 0
    """Jobs that the back-ups had to hold."""
    restored_lost: int = 0
    """Of those: missing in a back-up, or to the server that went on with it."""
    went_on: int = 0
    """Servers that went on with an upgraded or restored state, of 2."""
    fsck_clean: bool = False
    """Whether the state that was really used, and every back-up, has nothing to be found."""
    fsck_damages: int = 0
    fsck_found: int = 0
    restore_deaths: int = 0
    """Kills of a restore, and cuts of its power: one each before every operation that changes a file."""
    restore_survived: int = 0
    """Of those: the state was wholly the old one or the new one, clean, and the restore could be repeated."""
    seconds: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether every promise was."""
        return (
            self.opened == self.schemas
            and self.newer_refused
            and self.restored_lost == 0
            and self.went_on == 2
            and self.fsck_clean
            and self.fsck_found == self.fsck_damages
            and self.restore_survived == self.restore_deaths
        )


# -------------------------------------------------------------------------------------------- upgrade


def opens(version: int, folder: Path) -> bool:
    """Whether the file of that release comes up whole."""
    path = folder / "state" / "grus.db"
    released.make(version, path)
    if not check(path).clean:
        return False
    store = SqliteStore(path)
    try:
        whole = {job.id: job.phase for job in store.jobs()} == released.FATES
        whole = whole and len(store.events()) == released.EVENTS
    finally:
        store.close()
    return whole and not [one for one in check(path).findings if one.check == "schema"]


def goes_on(home: Path, known: set[str]) -> int:
    """Start a server on this state; how many of these jobs it does not know. It runs a job of its own."""
    server = ServerProcess(home)
    try:
        server.start()
        with server.client() as client:
            found = {job.id for job in _all(client)}
            job = {"name": "after", "run": "true", "resources": {"gpu": 0}, "workdir": "/"}
            assert client.submit(job).wait(PATIENCE).phase == "succeeded"
        return len(known - found)
    finally:
        server.end()


def _all(client: Client) -> Iterator[JobOut]:
    after = None
    while page := client.jobs(limit=1000, after=after):
        yield from page
        after = page[-1].id


def newer_is_refused(home: Path) -> bool:
    """By the command that people type: a code, a sentence, and the file as it was."""
    path = home / "state" / "grus.db"
    released.make_newer(path, len(STEPS) + 1)
    before = path.read_bytes()
    env = {**ServerProcess(home).env}
    command = [sys.executable, "-m", "grus.cli.main", "up", "--virtual", "1x1x1GB", "--port", "0"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    refused = done.returncode == 1 and "written by a newer Grus; upgrade" in done.stderr
    return refused and path.read_bytes() == before


# ------------------------------------------------------------------------------------- back-up, restore


@dataclass(slots=True)
class Load:
    """Clients that submit all the time, and what they were promised."""

    acknowledged: list[str] = field(default_factory=list)
    broken: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def has(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.acknowledged) >= count or bool(self.broken)

    def submit(self, client: Client, name: str) -> None:
        number = 0
        try:
            while not self.stop.is_set():
                number += 1
                job = {"name": f"{name}-{number}", **WAITS}
                self.acknowledged.append(client.submit(job, key=f"{name}-{number}").id)
        except BaseException as error:  # noqa: BLE001 - the edge of a thread; the main one raises it
            self.broken.append(error)


@contextmanager
def under_load(pool: LivePool) -> Iterator[Load]:
    load = Load()
    clients = [pool.client() for _ in range(SUBMITTERS)]
    threads = [
        threading.Thread(target=load.submit, args=(client, f"load{number}"))
        for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
    assert not load.broken, load.broken


def back_ups(pool: LivePool, folder: Path, count: int) -> tuple[list[tuple[Path, set[str]]], bool]:
    """Made under load: each with the jobs that it must hold. And whether all of them are clean."""
    made: list[tuple[Path, set[str]]] = []
    clean = True
    with under_load(pool) as load:
        for number in range(count):
            eventually(load.has(AHEAD * (number + 1)), "clients submit")
            promised = set(load.acknowledged)
            target = folder / f"back-up-{number}"
            back_up(pool.places, target, time.time(), artefacts=True)
            made.append((target, promised))
    for target, _ in made:
        clean = check(target / "grus.db").clean and clean
    return made, clean


def missing(target: Path, promised: set[str]) -> int:
    """Jobs that a back-up should hold, and does not."""
    copy = target.with_name(f"{target.name}.opened")
    shutil.copyfile(target / "grus.db", copy)
    store = SqliteStore(copy)
    try:
        return len(promised - {job.id for job in store.jobs()})
    finally:
        store.close()


def restored(target: Path, home: Path, promised: set[str], token: Path) -> int:
    """Bring it to another place, and let a server go on with it; how many of the jobs it does not know."""
    server = ServerProcess(home)
    restore(server.places, target, time.time())
    shutil.copyfile(token, server.places.token_file)
    assert examined(server.places.state).clean
    return goes_on(home, promised)


# ------------------------------------------------------------------------------------------------ fsck


def is_found(damage: Damage, state: Path, copy: Path) -> bool:
    """Plant it in a copy of the state, and look."""
    shutil.copytree(state, copy, symlinks=True, ignore=shutil.ignore_patterns("notify", "epochs", "bell"))
    try:
        damage.plant(copy)
        verdict = examined(copy)
        return any(one.grave and one.check == damage.check and one.fix for one in verdict.findings)
    finally:
        shutil.rmtree(copy)


# ------------------------------------------------------------------------------------------------- all


def run(folder: Path, backups: int = 3) -> Figures:
    begun = time.monotonic()
    figures = Figures(schemas=len(released.VERSIONS))
    for version in released.VERSIONS:
        figures.opened += opens(version, folder / f"version-{version}")
    _say(f"{figures.opened} of {figures.schemas} schemas opened")
    oldest = folder / f"version-{released.VERSIONS[0]}"
    (oldest / "token").write_text(released.SECRET)
    figures.went_on += goes_on(oldest, set(released.FATES)) == 0
    figures.newer_refused = newer_is_refused(folder / "newer")
    _say(f"a newer file is refused: {figures.newer_refused}")
    with a_used_pool(folder / "used") as pool:
        use(pool)
        made, clean = back_ups(pool, folder, backups)
        figures.backups = len(made)
        pool.stop()
        state = pool.places.state
        figures.fsck_clean = clean and examined(state).clean
        for name, damage in DAMAGES.items():
            found = is_found(damage, state, folder / "damaged")
            figures.fsck_damages, figures.fsck_found = figures.fsck_damages + 1, figures.fsck_found + found
            if not found:
                _say(f"not found: {name}")
        _say(f"{figures.fsck_found} of {figures.fsck_damages} damages found")
        for target, promised in made:
            figures.acknowledged += len(promised)
            figures.restored_lost += missing(target, promised)
        target, promised = made[-1]
        lost = restored(target, folder / "restored", promised, pool.places.token_file)
        figures.restored_lost += lost
        figures.went_on += lost == 0
    for wrong in restore_deaths.deaths(folder / "deaths"):
        figures.restore_deaths += 1
        figures.restore_survived += not wrong
        if wrong:
            _say(wrong)
    _say(f"{figures.restore_survived} of {figures.restore_deaths} deaths of a restore survived")
    figures.seconds = round(time.monotonic() - begun, 1)
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backups", type=int, default=3, help="how many back-ups under load")
    options = parser.parse_args()
    if preloading.compiler() is None:
        print(json.dumps({"skipped": preloading.CANNOT}))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        figures = run(Path(temporary).resolve(), options.backups)
    print(json.dumps(asdict(figures)))
    return 0 if figures.kept else 1


if __name__ == "__main__":
    sys.exit(main())
