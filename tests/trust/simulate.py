"""Deterministic simulation of the whole control plane: many histories, each from one seed.

    python -m tests.trust.simulate                        the short size: until 1,000,000 events, or 240 s
    python -m tests.trust.simulate --seeds 5000 --from 400 --jobs 2
    python -m tests.trust.simulate --replay 17            one history in words

The real loop, services, sweeps, scheduler and rules of the store act on a simulated disk, clock, network and
pool. A storm of deeds is followed by a calm in which everything must end. A history that breaks a promise is
shown as the shortest one that still breaks it. The last line of the output is one JSON object.
"""

import argparse
import json
import logging
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from tests.trust.calm import calm
from tests.trust.deeds import Deed, draw
from tests.trust.storm import Storm
from tests.trust.violations import Broken, Violation
from tests.trust.world import Complaints

ENOUGH = 1_000_000
"""Events of the short size."""
LONGEST = 240.0
"""Seconds of the short size."""
NOT_EVENTS = frozenset({"passes", "decisions judged"})


@dataclass
class History:
    """What became of the deeds of one seed."""

    seed: int
    deeds: list[Deed]
    violation: Violation | None = None
    counts: Counter[str] = field(default_factory=Counter)
    """Events by kind."""
    digest: str = ""
    """The same for the same history, to the byte."""
    lines: list[str] = field(default_factory=list)
    """The history in words, if it was to be kept."""
    lasted: float = 0.0
    """Virtual seconds."""

    @property
    def events(self) -> int:
        return sum(count for kind, count in self.counts.items() if kind not in NOT_EVENTS)


def run(seed: int, *, deeds: Sequence[Deed] | None = None, keep: bool = False) -> History:
    """The history of a seed, or of a part of its deeds; its `violation` says which promise was broken."""
    history = History(seed, list(deeds) if deeds is not None else draw(seed))
    logger, complaints = logging.getLogger("grus"), Complaints()
    spread, logger.propagate = logger.propagate, False
    logger.addHandler(complaints)
    storm = Storm(keep)
    try:
        for deed in history.deeds:
            storm.do(deed)
        calm(storm)
    except Broken as error:
        history.violation = error.violation
    finally:
        logger.removeHandler(complaints)
        logger.propagate = spread
        storm.world.close()
    world = storm.world
    history.counts, history.digest, history.lasted = world.counts, world.digest, world.now
    history.lines = world.lines or []
    return history


def shrink(seed: int, violation: Violation) -> History:
    """The shortest history found that still breaks the same promise: deeds are taken out while it does."""
    deeds = draw(seed)
    piece = len(deeds) // 2
    while piece:
        at = 0
        while at < len(deeds):
            rest = deeds[:at] + deeds[at + piece :]
            found = run(seed, deeds=rest).violation
            if found is not None and found.invariant == violation.invariant:
                deeds = rest
            else:
                at += piece
        piece //= 2
    return run(seed, deeds=deeds, keep=True)


def in_words(history: History) -> str:
    """For people."""
    found = history.violation
    end = "no promise was broken" if found is None else f"{found.invariant} is broken: {found.text}"
    return "\n".join([f"seed {history.seed}, {len(history.deeds)} deeds", *history.lines, end])


Outcome = tuple[int, Counter[str], Violation | None]


def _outcome(seed: int) -> Outcome:
    try:
        history = run(seed)
    except Exception as error:  # noqa: BLE001 - one that breaks off says nothing of the others, and is told
        return seed, Counter(), Violation("CHECK", f"the history broke off: {error!r}")
    return seed, history.counts, history.violation


def _outcomes(first: int, jobs: int) -> Generator[Outcome, None, None]:
    seeds = iter(range(first, sys.maxsize))
    if jobs == 1:
        yield from map(_outcome, seeds)
        return
    # Spawned afresh, so that a history cannot depend on what its process did before.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        waiting = [pool.apply_async(_outcome, (next(seeds),)) for _ in range(2 * jobs)]
        while True:
            yield waiting.pop(0).get()
            waiting.append(pool.apply_async(_outcome, (next(seeds),)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trust.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, help="so many histories")
    parser.add_argument("--seconds", type=float, help="for so long")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show one history in words")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        history = run(options.replay, keep=True)
        print(in_words(history))
        return 0 if history.violation is None else 1
    began, told = time.monotonic(), 0.0
    counts: Counter[str] = Counter()
    broken: dict[int, Violation] = {}
    seed = options.first - 1
    histories = 0
    outcomes = _outcomes(options.first, options.jobs)
    for seed, found, violation in outcomes:
        histories += 1
        counts += found
        if violation is not None:
            broken[seed] = violation
            print(f"seed {seed}: {violation.invariant}: {violation.text}", file=sys.stderr)
        passed = time.monotonic() - began
        events = sum(count for kind, count in counts.items() if kind not in NOT_EVENTS)
        if passed - told > 5:
            told = passed
            print(
                f"{passed:5.0f} s  {histories} histories, {events} events, {len(broken)} broken",
                file=sys.stderr,
            )
        if options.seeds is not None or options.seconds is not None:
            if options.seeds is not None and histories >= options.seeds:
                break
            if options.seconds is not None and passed >= options.seconds:
                break
        elif events >= ENOUGH or passed >= LONGEST:
            break
    outcomes.close()
    whole = {seed: one for seed, one in broken.items() if one.invariant != "CHECK"}
    if whole:
        first = min(whole)
        print(in_words(shrink(first, broken[first])), file=sys.stderr)
    result = {
        "events": events,
        "histories": histories,
        "from": options.first,
        "to": seed,
        "violations": len(broken),
        "by_kind": dict(sorted(counts.items())),
        "seconds": round(time.monotonic() - began, 1),
    }
    if broken:
        result["broken"] = {str(seed): f"{one.invariant}: {one.text}" for seed, one in broken.items()}
    print(json.dumps(result))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
