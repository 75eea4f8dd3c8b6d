"""The table of trust: all proofs, run one after the other, and what each of them has shown.

    python -m tests.trust.table                       every proof in its short size, about ten minutes
    python -m tests.trust.table --long                a run more of each that is not whole yet: they add up
    python -m tests.trust.table --long --recorded     what the long runs so far have come to, without another
    python -m tests.trust.table --only attack --only power

Proofs that measure time run alone, the others two at a time. What falls short stands there as it is. The last
line is the table as one JSON object; the exit code is 1 if a promise was broken or a proof did not run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from tests.trust.ledger import FOLDER, ROOT, Ledger, digest_of_sources
from tests.trust.pages import Line, shown, write
from tests.trust.parts import PARTS, PROMISES, Figures, Part, Promise


@dataclass(frozen=True, slots=True)
class Ran:
    """What one program has come to."""

    figures: Figures
    seconds: float
    trouble: str = ""
    """Why there are no figures."""


def run(part: Part, words: str) -> Ran:
    """Run the program; its words go to stderr as they come."""
    began = time.monotonic()
    command = [sys.executable, "-m", *words.split()]
    say(f"{part.name}: {' '.join(command[1:])}")
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    took = time.monotonic() - began
    lines = done.stdout.strip().splitlines()
    try:
        figures = json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        figures = None
    if not isinstance(figures, dict):
        return Ran({}, took, f"it ended with {done.returncode} and told no figures")
    say(f"{part.name}: {took:.0f} s, {lines[-1][:200]}")
    return Ran(figures, took)


def all_of(chosen: Sequence[Part], long: bool, ledger: Ledger) -> dict[str, Ran]:
    """Each part once more; in the long size only those that are not whole yet."""

    def one(part: Part) -> tuple[str, Ran]:
        if not long:
            return part.name, run(part, part.short)
        known = ledger.figures(part.name)
        if _number(known.get(part.size)) >= part.full:
            return part.name, Ran(known, 0.0)
        ran = run(part, part.long.format(next=ledger.next(part)))
        if not ran.trouble:
            ledger.add(part, ran.figures)
        return part.name, Ran(ledger.figures(part.name), ran.seconds, ran.trouble)

    found = dict(one(part) for part in chosen if part.alone)
    with ThreadPoolExecutor(max_workers=2) as two:
        found.update(two.map(one, [part for part in chosen if not part.alone]))
    return found


def recorded(chosen: Sequence[Part], ledger: Ledger) -> dict[str, Ran]:
    """What the long runs before have come to."""
    known = {part.name: ledger.figures(part.name) for part in chosen}
    return {name: Ran(figures, 0.0, "" if figures else "not run") for name, figures in known.items()}


def lines(promises: Iterable[Promise], parts: Mapping[str, Part], ran: Mapping[str, Ran]) -> list[Line]:
    return [
        judged(promise, parts[promise.part], ran[promise.part]) for promise in promises if promise.part in ran
    ]


def judged(promise: Promise, part: Part, ran: Ran) -> Line:
    value = ran.figures.get(promise.figure)
    if isinstance(value, list):  # what went wrong, in words
        value = len(value)
    tried = f"{shown(ran.figures.get(part.size))} {part.size}"
    if isinstance(value, int | float):
        verdict = "kept" if promise.kept(float(value), ran.figures) else "broken"
    else:
        verdict = ran.trouble or ("not audited" if "not_audited" in ran.figures else "not run")
    return Line(promise.claim, value, promise.aim, verdict, tried, round(ran.seconds, 1))


def draw(table: Sequence[Line], size: str) -> None:
    drawn = Table("promise", "figure", "aim", "verdict", "tried", title=f"Trust, {size} proofs")
    for line in table:
        drawn.add_row(line.claim, shown(line.value), line.aim, line.verdict, line.tried)
    Console(width=int(os.environ.get("COLUMNS", "130"))).print(drawn)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="add a run to those before, until each is whole")
    parser.add_argument("--recorded", action="store_true", help="with --long: run nothing")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS], metavar="PART")
    given = parser.parse_args()
    size = "long" if given.long else "short"
    chosen = [part for part in PARTS if not given.only or part.name in given.only]
    ledger = Ledger(FOLDER / f"{digest_of_sources()}.json")
    ran = recorded(chosen, ledger) if given.recorded else all_of(chosen, given.long, ledger)
    table = lines(PROMISES, {part.name: part for part in PARTS}, ran)
    draw(table, size)
    if given.write:
        write(table, size)
    told = {
        "size": size,
        "promises": {line.claim: asdict(line) for line in table},
        "parts": {name: {**one.figures, "took_s": round(one.seconds, 1)} for name, one in ran.items()},
    }
    print(json.dumps(told))
    return 0 if all(line.verdict in ("kept", "not audited") for line in table) else 1


if __name__ == "__main__":
    sys.exit(main())
