"""What growing, shrinking and losing a worker cost a training. `python -m benchmarks.resize [--rounds N]`

The same small model, 50 ms a step, on `grus.train` (a job on a real server), on torchrun and on torchft, all
on this machine. Every worker writes down when it finished which step; all figures come from these logs:

- stall: how much longer than a normal step the longest time without a new step was, around the event;
- settle: seconds from the decision until the training runs at full speed with the new number of workers;
- steps redone: steps whose work was thrown away.

Events: 1 to 2 workers, 2 to 4, kill -9 of one of four (it is replaced), 4 to 1. In each round every runtime
starts anew and lives through all of them; medians over the rounds count. torchrun with its defaults takes
long, so it has fewer rounds. `stall_ratio` and `torchft_ratio` are the smallest over the events of the
other's median stall / ours. `step_overhead` is that of an undisturbed step over plain DDP.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.machine import facts, wait_until_quiet
from benchmarks.resizing import on_torchft, overhead
from benchmarks.resizing.on_grus import Grus
from benchmarks.resizing.on_torchft import Torchft
from benchmarks.resizing.on_torchrun import Torchrun
from benchmarks.resizing.sides import Side
from benchmarks.resizing.story import EVENTS, live_through
from benchmarks.resizing.summary import DEFAULTS, OURS, PREFIX, TORCHFT, TORCHRUN, Effects, summary

ROUNDS = 5
DEFAULT_ROUNDS = 1
OVERHEAD_ROUNDS = 80
QUIET = 0.10
"""Share of the machine that others may use when a runtime begins a round; waited for, but not for ever."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of events ({ROUNDS})")
    parser.add_argument("--default-rounds", type=int, default=DEFAULT_ROUNDS, help="… of torchrun's defaults")
    parser.add_argument("--overhead-rounds", type=int, default=OVERHEAD_ROUNDS)
    parser.add_argument("--only", action="append", choices=list(PREFIX), help="this runtime only")
    parser.add_argument("--keep", type=Path, help="keep all logs in this new folder")
    given = parser.parse_args()
    rounds = {name: given.default_rounds if name == DEFAULTS else given.rounds for name in PREFIX}
    with tempfile.TemporaryDirectory(prefix="grus-resize-") as temporary:
        root = given.keep or Path(temporary)
        added = overhead.measure(new(root / "overhead"), given.overhead_rounds, tell)
        torchft = on_torchft.provide(new(root / "packages"))
        wanted = {
            name: rounds[name] for name in given.only or PREFIX if name != TORCHFT or torchft is not None
        }
        effects, given_up = play(root, runtimes(torchft or ""), wanted)
    beside = {"torchft": "not installed" if torchft is None else on_torchft.VERSION, "given_up": given_up}
    print(json.dumps({**summary(effects), **added, **beside, "rounds": given.rounds, **facts()}))
    return 0


def runtimes(torchft: str) -> dict[str, Callable[[Path], Side]]:
    return {
        OURS: Grus,
        TORCHRUN: lambda folder: Torchrun(folder, tuned=True),
        DEFAULTS: lambda folder: Torchrun(folder, tuned=False),
        TORCHFT: lambda folder: Torchft(folder, torchft),
    }


def play(
    root: Path, starts: Mapping[str, Callable[[Path], Side]], rounds: Mapping[str, int]
) -> tuple[dict[str, Effects], int]:
    """What every event of every runtime did; and how many rounds were given up in the middle."""
    effects: dict[str, Effects] = {name: {event: [] for event in EVENTS} for name in rounds}
    given_up = 0
    for number in range(max(rounds.values(), default=0)):
        for name in [name for name, wanted in rounds.items() if number < wanted]:
            tell(f"round {number + 1}: {name}; others use {wait_until_quiet(QUIET, 20.0):.0%} of the machine")
            try:
                with starts[name](new(root / f"{name}-{number}")) as side:
                    for event, found in live_through(side, number):
                        tell(f"  {event}: {found}")
                        effects[name][event].append(found)
            except TimeoutError as error:
                tell(f"  given up: {error}")
                given_up += 1
    return effects, given_up


def new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
