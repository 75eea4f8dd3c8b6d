"""Known bugs of peers, put into Grus one at a time: does anything here notice?

    python -m tests.trust.planted                  each bug by the proof that is known to catch it
    python -m tests.trust.planted --only no-fence  one of them
    python -m tests.trust.planted --every          each bug by all of its proofs, to see who catches what

The bugs are in `bugs/`, each with the public report that it comes from. A bug is caught when a proof breaks
with it that holds without it: all proofs that caught something are also run with nothing planted. The last
line is one JSON object; the exit code is 1 if a bug goes uncaught.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from tests.trust.bugs import access, keeping, lives, processes, scheduling
from tests.trust.bugs.planting import SEEDS, Bug
from tests.trust.proving import SIMULATION, Attempt, Outcome, Verdict, kind, run_all

BUGS: tuple[Bug, ...] = (*scheduling.BUGS, *lives.BUGS, *keeping.BUGS, *processes.BUGS, *access.BUGS)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def catch(bugs: Sequence[Bug], at_once: int, *, every: bool) -> dict[str, list[Outcome]]:
    """By bug: the proofs that were run, up to the first that caught it, or all of them."""
    found: dict[str, list[Outcome]] = {bug.name: [] for bug in bugs}
    left = {bug.name: list(bug.proofs) for bug in bugs}
    for bug in bugs if every else ():
        if bug.everywhere and SEEDS not in bug.proofs:
            left[bug.name].append(SEEDS)
    while due := [Attempt(left[bug.name].pop(0), bug) for bug in bugs if left[bug.name]]:
        for outcome in run_all(due, at_once):
            assert outcome.attempt.bug is not None
            name = outcome.attempt.bug.name
            found[name].append(outcome)
            what = f"{outcome.attempt.proof} {outcome.verdict} in {outcome.seconds:.1f} s"
            say(f"{name}: {what} {outcome.words}")
            if outcome.verdict is Verdict.BROKEN and not every:
                left[name] = []
    return found


def false_alarms(found: dict[str, list[Outcome]], at_once: int) -> dict[str, str]:
    """Proofs that caught something, and do not hold with nothing planted either."""
    caught = {one.attempt.proof for all_ in found.values() for one in all_ if one.verdict is Verdict.BROKEN}
    alone = run_all([Attempt(proof) for proof in sorted(caught)], at_once)
    return {one.attempt.proof: one.words for one in alone if one.verdict is not Verdict.HELD}


def judged(bugs: Sequence[Bug], found: dict[str, list[Outcome]], alarms: dict[str, str]) -> dict[str, object]:
    """The figures."""
    told: dict[str, object] = {}
    caught = by_simulation = 0
    for bug in bugs:
        broken = [
            one
            for one in found[bug.name]
            if one.verdict is Verdict.BROKEN and one.attempt.proof not in alarms
        ]
        caught += bool(broken)
        by_simulation += any(one.attempt.proof.startswith(SIMULATION) for one in broken)
        told[bug.name] = {
            "report": bug.report,
            "caught_by": [f"{kind(one.attempt.proof)}: {one.words}" for one in broken],
            "seconds": round(sum(one.seconds for one in found[bug.name]), 1),
        }
    return {"planted": len(bugs), "caught": caught, "caught_by_simulation": by_simulation, "bugs": told}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", action="append", choices=[bug.name for bug in BUGS], help="this bug")
    parser.add_argument("--every", action="store_true", help="run all proofs of each bug")
    parser.add_argument("--at-once", type=int, default=2, help="proofs that run at the same time")
    asked = parser.parse_args(arguments)
    bugs = [bug for bug in BUGS if not asked.only or bug.name in asked.only]
    began = time.monotonic()
    found = catch(bugs, asked.at_once, every=asked.every)
    alarms = false_alarms(found, asked.at_once)
    for proof, words in alarms.items():
        say(f"{proof} does not hold with nothing planted: {words}")
    figures = judged(bugs, found, alarms)
    print(json.dumps({**figures, "seconds": round(time.monotonic() - began, 1)}))
    return 0 if figures["caught"] == len(bugs) and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
