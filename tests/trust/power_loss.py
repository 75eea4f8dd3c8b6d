"""Loss of power, at any moment: `python -m tests.trust.power_loss [--cuts 50] [--from SEED]`, one JSON line.

Real work of Grus (`power_work`) runs above a layer that writes down everything that reaches the disk
(`journal.c`). From one such journal the disk is made as it may be after a loss of power at any place in it
(`disk`): what was not synced is there in part, torn and out of order. Each such disk is opened with the real
code and held against what had been confirmed before that place (`power_checks`). One of them is where the
next life of the same work begins, so that power is also lost while the loss before is being repaired.

The same with a store that does not sync is the control: it must lose something, else the layer proves
nothing. Further seeds (`--from`) give further cuts; the figures of several runs add up.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.trust import disk, power_checks, power_work, preloading
from tests.trust.power_checks import Findings

Word = dict[str, object]
State = tuple[disk.Image, list[Word]]
"""A disk after a cut, and what had been said before it."""
ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
NAMING = {disk.Kind.CREATE, disk.Kind.RENAME, disk.Kind.LINK, disk.Kind.MKDIR}
MOODS = ("any", "any", "beginning", "sync", "promise", "promise", "names")
OPENING = 150
"""Operations at a life's beginning, in which the loss before is repaired."""


@dataclass(frozen=True, slots=True)
class Share:
    """How a kind of work is tried: `size` of one life's work, cuts of one life."""

    size: int
    cuts: int


SHARES = {
    "store": Share(120, 10),
    "checkpoints": Share(12, 10),
    "vault": Share(6, 10),
    "code": Share(4, 10),
    "first_start": Share(1, 10),
    "engine": Share(10, 5),
    "store_off": Share(80, 10),
    "store_normal": Share(80, 10),
}


@dataclass(slots=True)
class Figures:
    cuts: int = 0
    """Of the store."""
    acknowledged: int = 0
    """Confirmed writes that were looked for, over all cuts of the store."""
    lost: int = 0
    half_written: int = 0
    corrupt: int = 0
    checkpoint_cuts: int = 0
    checkpoint_corrupt: int = 0
    """Loads that gave another content, or an older step, than what was said to be saved."""
    other_cuts: dict[str, int] = field(default_factory=dict)
    """Of the artefacts' vault, copies of submitted code, a server's first start, and the engine."""
    other_wrong: int = 0
    control_cuts: int = 0
    control_lost: int = 0
    """Cuts after which a store that does not sync has lost something: must not be 0."""
    normal_lost: int = 0
    """The same with synchronous=NORMAL."""
    seconds: float = 0.0

    @property
    def wrong(self) -> int:
        return self.lost + self.half_written + self.corrupt + self.checkpoint_corrupt + self.other_wrong


def lives(kind: str, cuts: int, seed: int) -> list[Findings]:
    """What was found after each of so many cuts of this kind of work."""
    chance = random.Random(f"{kind} {seed}")
    found: list[Findings] = []
    image: disk.Image = {}
    before: list[Word] = []
    life = 0
    while len(found) < cuts:
        with tempfile.TemporaryDirectory(prefix="grus-power-") as temporary:
            folder = Path(temporary).resolve()
            disk.lay_out(image, folder / "disk")
            journal = folder / "journal"
            power_on = disk.Disk.of(folder / "disk")
            _work(kind, folder / "disk", journal, seed * 1000 + life)
            states = _cut(power_on, journal, min(SHARES[kind].cuts, cuts - len(found)), chance)
            sound: list[State] = [({}, [])]
            for number, (image, words) in enumerate(states):
                place = folder / f"cut-{number}"
                disk.lay_out(image, place)
                found.append(power_checks.CHECKS[kind](place, [*before, *words]))
                for text in found[-1].all[:3]:
                    _say(f"  {kind}, seed {seed}, life {life}, cut {number}: {text}")
                if not found[-1].all:
                    sound.append((image, [*before, *words]))
                shutil.rmtree(place)
            image, before = chance.choice(sound[1:] or sound)  # nobody works on with what is broken
        life += 1
        _say(f"{kind}: {len(found)} of {cuts} cuts, {sum(bool(one.all) for one in found)} with losses")
    return found


def _work(kind: str, folder: Path, journal: Path, seed: int) -> None:
    """One life, to the end of its work."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "LD_PRELOAD": str(preloading.library("journal")),
        "GRUS_TRUST_FOLDER": str(folder),
        "GRUS_TRUST_JOURNAL": str(journal),
    }
    command = [sys.executable, "-m", "tests.trust.power_work", kind, str(folder), str(seed)]
    subprocess.run([*command, str(SHARES[kind].size)], env=env, check=True, timeout=PATIENCE)


def _cut(power_on: disk.Disk, journal: Path, cuts: int, chance: random.Random) -> list[State]:
    """Disks after cuts at so many places, each with what had been said before; then that nothing escaped."""
    operations = list(disk.read(journal))
    places = sorted(min(_place(operations, chance), len(operations)) for _ in range(cuts))
    states, words = list[State](), list[Word]()
    said = 0
    for number, operation in enumerate([*operations, disk.END]):
        while places and places[0] <= number:
            places.pop(0)
            states.append((power_on.after_cut(chance), list(words)))
        if operation.kind is disk.Kind.CREATE and operation.paths[0] == f"{power_on.top}/{power_work.SAID}":
            said = operation.inode
        elif operation.inode == said and said:
            if operation.kind is disk.Kind.WRITE:
                words.append(json.loads(operation.data))
        else:
            power_on.do(operation)
    _nothing_escaped(power_on)
    return states


def _place(operations: list[disk.Operation], chance: random.Random) -> int:
    """Before which operation: any; or one at the beginning; or a sync, when most is uncertain; or one soon
    after a promise, or after a change of names."""
    mood = chance.choice(MOODS)
    if mood == "beginning":
        return chance.randrange(min(OPENING, len(operations)))
    if mood == "any":
        return chance.randrange(len(operations) + 1)
    wanted = {"sync": {disk.Kind.SYNC}, "promise": {disk.Kind.WRITE}}.get(mood, NAMING)
    found = [
        number
        for number, one in enumerate(operations)
        if one.kind in wanted and (mood != "promise" or one.data.startswith(b'{"'))
    ]
    if not found:
        return len(operations)
    return chance.choice(found) + (0 if mood == "sync" else chance.randrange(1, 4))


def _nothing_escaped(power_on: disk.Disk) -> None:
    """With power, the disk of the model is the real one: else something went past the layer."""
    top = Path(power_on.top)
    real = {
        str(path.relative_to(top)): None if path.is_dir() else path.read_bytes()
        for path in top.rglob("*")
        if (path.is_dir() or path.is_file()) and path.name != power_work.SAID
    }
    real = {name: content for name, content in real.items() if not name.endswith(disk.SKIPPED)}
    told = power_on.now()
    differing = [name for name in real.keys() | told.keys() if real.get(name, 0) != told.get(name, 0)]
    assert not differing, f"the journal does not tell all that happened to {differing}"


def run(cuts: int, seed: int) -> Figures:
    begun = time.monotonic()
    figures = Figures(cuts=cuts, checkpoint_cuts=max(1, cuts // 2), control_cuts=max(5, cuts // 5))
    found = lives("store", cuts, seed)
    figures.acknowledged = sum(one.held for one in found)
    figures.lost = sum(len(one.lost) for one in found)
    figures.half_written = sum(len(one.half) for one in found)
    figures.corrupt = sum(len(one.corrupt) for one in found)
    found = lives("checkpoints", figures.checkpoint_cuts, seed)
    figures.checkpoint_corrupt = sum(len(one.all) for one in found)
    for kind in ("vault", "code", "first_start", "engine"):
        found = lives(kind, max(5, cuts // 5), seed)
        figures.other_cuts[kind] = len(found)
        figures.other_wrong += sum(len(one.all) for one in found)
    figures.control_lost = _with_losses("store_off", figures.control_cuts, seed)
    figures.normal_lost = _with_losses("store_normal", figures.control_cuts, seed)
    figures.seconds = round(time.monotonic() - begun, 1)
    return figures


def _with_losses(kind: str, cuts: int, seed: int) -> int:
    return sum(bool(one.all) for one in lives(kind, cuts, seed))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cuts", type=int, default=50)
    options.add_argument("--from", type=int, default=1, dest="seed", help="another seed gives other cuts")
    given = options.parse_args()
    if preloading.compiler() is None:
        print(json.dumps({"skipped": preloading.CANNOT}))
        return 0
    figures = run(given.cuts, given.seed)
    print(json.dumps(asdict(figures)))
    return 1 if figures.wrong or not figures.control_lost else 0


if __name__ == "__main__":
    sys.exit(main())
