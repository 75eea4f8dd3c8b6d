"""Process of a simulation: separate, so that the server's threads are not blocked.

    python -m grus.dashboard.whatif.simulation_worker

is that process. It reads one question from its standard input, reports its progress in lines of JSON, and
last the answer. It runs at low priority with a bound on its memory, and ends when its input does: the server
that started it is gone then.
"""

import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO

import msgspec

from grus.dashboard.whatif.simulation_form import Question
from grus.model.errors import BadInput
from grus.simulator import result_summary
from grus.simulator.html_pages.comparison_page import figures
from grus.simulator.whatif_scenarios import Scenario, Simulated, WhatIfComparison, compare, run

POLITE = 5
"""Nicer than the server by so much; somebody waits for it."""
MOST_MEMORY = 4 << 30
"""Bytes of addresses: the kernel refuses more."""
TELL_EVERY = 0.1
"""Seconds between two words of progress."""
COUNTED = 10
"""Jobs that end between two looks at the clock."""
SURER = "several possible worlds tell"

Tell = Callable[[dict[str, object]], None]


def play(question: Question, tell: Tell, clock: Callable[[], float]) -> None:
    """Answer the question; `tell` receives the progress, then the answer or the errors."""

    def runner(scenarios: Sequence[Scenario]) -> list[Simulated]:
        return _in_turn(scenarios, tell, clock)

    try:
        comparison = compare(
            question.present,
            question.change,
            seeds=question.seeds,
            static=question.static,
            chaos=question.chaos,
            draw=True,
            runner=runner,
        )
    except BadInput as error:
        tell({"mistakes": [[one.field, one.rule, one.value] for one in error.mistakes]})
        return
    tell({"answer": answered(question, replace(comparison, measured=question.measured))})


def _in_turn(scenarios: Sequence[Scenario], tell: Tell, clock: Callable[[], float]) -> list[Simulated]:
    total, base, due = sum(len(scenario.works) for scenario in scenarios), 0, 0.0
    found = []

    def progress(done: int, _: int) -> None:
        nonlocal due
        if clock() >= due:
            tell({"done": base + done, "of": total})
            due = clock() + TELL_EVERY

    for scenario in scenarios:
        found.append(run(scenario, progress, COUNTED))
        base += len(scenario.works)
    return found


def answered(question: Question, comparison: WhatIfComparison) -> dict[str, object]:
    """Sentences, tables and charts, for the page."""
    heading, rows = result_summary.table(comparison)
    tables = [{"title": "Figures", "heading": heading, "rows": rows}]
    for side in comparison.sides:
        if len(side.outcomes[0].queues) > 1:
            heading, rows = result_summary.queue_table(side.outcomes[0])
            tables.append({"title": f"Queues: {side.name}", "heading": heading, "rows": rows})
    model = result_summary.model(comparison, question.present.costs)
    sentences = (result_summary.answer(comparison, SURER), result_summary.against_static(comparison))
    return {
        "title": question.title,
        "sentences": [sentence for sentence in sentences if sentence],
        "notes": [note for note in (*question.notes, _worlds(question.seeds), model) if note],
        "tables": tables,
        "charts": [
            {"name": name, "title": title, "note": note, "figure": figure}
            for name, (title, note, figure) in figures(comparison).items()
        ],
    }


def _worlds(seeds: int) -> str:
    return (
        "One world, the jobs as they are."
        if seeds == 1
        else f"Means of {seeds} worlds; ± is a 95 % interval."
    )


# ---------------------------------------------------------------------------------------- inside the process


def _end_with(input_: BinaryIO) -> None:
    """End this process at once when the input ends; nothing more comes by the input."""
    input_.read()
    os._exit(1)


def _bound_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MOST_MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server.
    os.nice(POLITE)
    _bound_memory()

    def tell(words: dict[str, object]) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(words) + b"\n")
        sys.stdout.buffer.flush()

    question: Question = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the server that started this process
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        play(question, tell, time.monotonic)
    except Exception as error:  # noqa: BLE001 - process boundary: the server logs the cause, the user gets an error
        tell({"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()})
    os._exit(0)  # at once: the thread waits for an input that never comes


if __name__ == "__main__":
    main()
