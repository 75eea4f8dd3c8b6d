"""The table of trust: all proofs, run one after the other, and what each of them has shown.

    python -m tests.trust.table                       every proof in its short size, about ten minutes
    python -m tests.trust.table --long                a run more of each that is not whole yet: they add up
    python -m tests.trust.table --long --minutes 60   as many runs of each as begin within the hour
    python -m tests.trust.table --long --recorded     what the long runs so far have come to, without another
    python -m tests.trust.table --only attack --only power

Proofs that measure time run alone, the others two at a time. Long runs are entered in docs/figures/trust.json
as they end. What falls short stands there as it is. The last line is the table as one JSON object; the exit
code is 1 if a promise was broken or a proof did not run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from string import Formatter

from rich.console import Console
from rich.table import Table

from tests.trust import pages
from tests.trust.counting import Standing, kept, number, standing, tells_against
from tests.trust.ledger import Ledger, Run, compact, made
from tests.trust.pages import Line, shown
from tests.trust.parts import FAILED, PARTS, PROMISES, Figures, Part, Promise
from tests.trust.sources import ROOT, state_of

FINE = ("kept", "kept so far", "not audited")
"""Verdicts of promises of which nothing bad is known."""


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
    if "skipped" in figures:
        return Ran({}, took, str(figures["skipped"]))
    say(f"{part.name}: {took:.0f} s, {lines[-1][:200]}")
    return Ran(figures | ({FAILED: done.returncode} if done.returncode else {}), took)


def short_of(part: Part) -> Ran:
    return run(part, part.short)


def long_of(part: Part, ledger: Ledger, minutes: float, first: int, jobs: int) -> Ran:
    """A run more, if one has something to add, and then others until the minutes are over.

    What fails, breaks a promise or adds nothing is not tried again: that is for a person to look at.
    """
    began = time.monotonic()
    while True:
        state = state_of(part.program)
        before = standing(part, ledger.runs(part.name), state)
        if not before.due:
            return Ran({}, time.monotonic() - began)
        seed = max(first, ledger.next(part))
        ran = run(part, part.long.format(next=seed, jobs=jobs))
        entry = made(part, state, seed, ran.figures)
        if number(entry.figures.get(part.size)) or tells_against(entry):
            ledger.add(entry)
        elif FAILED in ran.figures:
            code = ran.figures[FAILED]
            return Ran({}, time.monotonic() - began, f"its proof ended with {code} and had tried nothing")
        after = standing(part, ledger.runs(part.name), state)
        passed = time.monotonic() - began
        if len(after.counted) <= len(before.counted) or passed >= 60 * minutes:
            return Ran(ran.figures, passed, ran.trouble)


def all_of(chosen: Sequence[Part], one: Callable[[Part], Ran]) -> dict[str, Ran]:
    """Those that measure time alone, the others two at a time."""
    found = {part.name: one(part) for part in chosen if part.alone}
    beside = [part for part in chosen if not part.alone]
    with ThreadPoolExecutor(max_workers=2) as two:
        found.update(zip((part.name for part in beside), two.map(one, beside), strict=True))
    return found


# ---------------------------------------------------------------------------------------------- judging


def judged(promise: Promise, part: Part, ran: Ran) -> Line:
    """By what one run has told."""
    figures = compact(ran.figures)
    value, size = figures.get(promise.figure), figures.get(part.size)
    if value is None:
        verdict = why_not(ran)
    elif not kept(promise, figures):
        verdict = "broken"
    else:
        verdict = failing(part, figures) or "kept"
    tried, seconds = f"{shown(size)} {part.size}", round(ran.seconds, 1)
    return Line(promise.claim, value, promise.aim, verdict, tried, seconds, reached=number(size))


def failing(part: Part, figures: Figures) -> str:
    """What the program says against all its promises: it has failed, and by none of them."""
    if figures.get(FAILED) and all(kept(one, figures) for one in PROMISES if one.part == part.name):
        return f"its proof ended with {figures[FAILED]}"
    return ""


def why_not(ran: Ran) -> str:
    """Why a run says nothing of a promise."""
    return ran.trouble or ("not audited" if "not_audited" in ran.figures else "not run")


def counted(promise: Promise, now: Standing, ran: Ran) -> Line:
    """By what all runs have come to."""
    reached, here = now.reached(promise), now.here(promise)
    broken = now.breaks_here(promise)

    def breach(run: Run) -> str:
        return failing(now.part, run.figures) or "broken"

    return Line(
        claim=promise.claim,
        value=broken.figures.get(promise.figure) if broken else now.figures.get(promise.figure),
        aim=promise.aim,
        verdict=breach(broken) if broken else ran.trouble or verdict_of(reached, now, ran),
        tried=tried_in_words(now.part, reached, here),
        seconds=round(ran.seconds, 1),
        seen=seen(now.part, now.figures) if promise is now.promises[0] else "",
        reached=reached,
        wanted=now.part.full,
        here=here,
        states=now.states(promise),
    )


def verdict_of(reached: float, now: Standing, ran: Ran) -> str:
    """Of a promise that no counted run has broken: those that break one do not count."""
    if reached >= now.part.full:
        return "kept"
    if reached:
        return "kept so far"
    return "not run since one broke" if now.broken and not ran.figures else why_not(ran)


def tried_in_words(part: Part, reached: float, here: float) -> str:
    of = "" if reached >= part.full else f" of {shown(part.full)}"
    if not reached:
        return f"0{of} {part.size}"
    on_this = "all" if here == reached else shown(here) if here else "none"
    return f"{shown(reached)}{of} {part.size}, {on_this} of them on this state"


def seen(part: Part, figures: Figures) -> str:
    """The part's texts, those of which all figures were told."""
    values = {name: shown(value) for name, value in figures.items()}
    told = [
        text
        for text in part.seen
        if values.keys() >= {name for _, name, _, _ in Formatter().parse(text) if name}
    ]
    return ", ".join(text.format(**values) for text in told)


# ---------------------------------------------------------------------------------------------- telling


def draw(table: Sequence[Line], size: str) -> None:
    drawn = Table("promise", "figure", "aim", "verdict", "tried", title=f"Trust, {size} proofs")
    for line in table:
        drawn.add_row(line.claim, shown(line.value), line.aim, line.verdict, line.tried)
    Console(width=int(os.environ.get("COLUMNS", "130"))).print(drawn)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell_short(chosen: Sequence[Part], write: bool) -> list[Line]:
    ran = all_of(chosen, short_of)
    parts = {part.name: part for part in chosen}
    table = [judged(one, parts[one.part], ran[one.part]) for one in PROMISES if one.part in ran]
    draw(table, "short")
    if write:
        pages.write("short", pages.short_block(table))
    tell("short", table, {name: (one.figures, one.seconds) for name, one in ran.items()}, [])
    return table


def tell_long(chosen: Sequence[Part], write: bool, ledger: Ledger, ran: Mapping[str, Ran]) -> list[Line]:
    now = {part.name: standing(part, ledger.runs(part.name), state_of(part.program)) for part in chosen}
    table = [
        counted(one, now[one.part], ran.get(one.part, Ran({}, 0.0))) for one in PROMISES if one.part in now
    ]
    draw(table, "long")
    runs = [run for one in now.values() for run in one.counted]
    broken = [run for one in now.values() for run in one.broken]
    for text in pages.told_of(broken):
        say(text)
    if write:
        pages.write("long", pages.long_block(table, runs, broken))
    took = {name: one.seconds for name, one in ran.items()}
    tell("long", table, {name: (one.figures, took.get(name, 0.0)) for name, one in now.items()}, broken)
    return table


def tell(
    size: str, table: Sequence[Line], parts: Mapping[str, tuple[Figures, float]], broken: Sequence[Run]
) -> None:
    """All of it as one JSON object."""
    told = {
        "size": size,
        "promises": {line.claim: asdict(line) for line in table},
        "parts": {name: {**figures, "took_s": round(took, 1)} for name, (figures, took) in parts.items()},
        "broken": [asdict(run) for run in broken],
    }
    print(json.dumps(told))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="add a run to those before, until each is whole")
    parser.add_argument("--minutes", type=float, default=0.0, help="with --long: go on with each for so long")
    parser.add_argument("--jobs", type=int, default=2, help="with --long: processes of the simulation")
    parser.add_argument(
        "--from", type=int, default=1, dest="first", metavar="SEED",
        help="with --long: no seed before this one, so that two clones go through other seeds",
    )  # fmt: skip
    parser.add_argument("--recorded", action="store_true", help="with --long: run nothing")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--only", action="append", choices=[part.name for part in PARTS], metavar="PART")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    chosen = [part for part in PARTS if not given.only or part.name in given.only]
    if given.write and given.only and not given.long:
        say("--write needs all parts: what was not run cannot stand on the page")
        return 2
    if not given.long:
        table = tell_short(chosen, given.write)
    else:
        ledger = Ledger()
        one = partial(long_of, ledger=ledger, minutes=given.minutes, first=given.first, jobs=given.jobs)
        ran = {} if given.recorded else all_of(chosen, one)
        table = tell_long(PARTS if given.write else chosen, given.write, ledger, ran)
    return 0 if all(line.verdict in FINE for line in table) else 1


if __name__ == "__main__":
    sys.exit(main())
