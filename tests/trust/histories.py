"""What clients saw of one job, and whether some order of events that respects time explains it. Pure.

A call took effect at one moment between its beginning and its answer; a call without an answer at one moment
after its beginning, or never. The search goes over all such orders. A job is, as far as its people are
concerned, what they want of it and how it ended:

    absent ─submit→ run ⇄ pause ─stop→ stop        from any of them, by itself → ended, and that is final

What cannot be seen in answers is seen in what ran: the starts that the job's own processes wrote down.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ENDS = ("succeeded", "failed", "stopped")
NOT_THERE, REFUSED = "not there", "refused"
"""Answers that are not a job."""
FOR_EVER = float("inf")


@dataclass(frozen=True, slots=True)
class Call:
    """One call: submit, stop, pause, resume or read."""

    what: str
    begun: float
    answered: float | None = None
    """None if no answer came."""
    answer: str = ""
    """`NOT_THERE`, `REFUSED`, or what is wanted of the job: run, pause, stop."""
    phase: str = ""
    attempt: int = 0
    version: int = 0
    job: str = ""
    """Its id."""

    @property
    def until(self) -> float:
        return FOR_EVER if self.answered is None else self.answered


@dataclass(frozen=True, slots=True)
class Start:
    """A process of the job began."""

    worker: str
    attempt: int
    at: float


@dataclass(slots=True)
class History:
    """All that is known of one submission."""

    name: str
    calls: list[Call] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    on_record: list[Call] = field(default_factory=list)
    """The jobs of this name in the end, each as a read."""
    disturbed: bool = False
    """Whether its processes were killed from outside, or it fails by itself."""


@dataclass(frozen=True, slots=True)
class State:
    wanted: str = ""
    """Empty while there is no job."""
    ended: str = ""


def lost(history: History) -> list[str]:
    """A submit that was confirmed has its job, which ran, and came to its end if nobody interfered."""
    if not any(call.what == "submit" and call.version for call in history.calls):
        return []
    if not history.on_record:
        return [f"{history.name} was confirmed and is gone"]
    end = history.on_record[0]
    if end.phase == "succeeded" and not history.starts:
        return [f"{history.name} succeeded and never ran"]
    stopped = any(call.what == "stop" and call.answer != REFUSED for call in history.calls)
    if end.phase not in ENDS or (end.phase != "succeeded" and not stopped and not history.disturbed):
        return [f"{history.name} ended as {end.phase}, and nobody asked for that"]
    return []


def twice(history: History) -> list[str]:
    """One submission is one job, and one worker is started once."""
    found = []
    if len(history.on_record) > 1:
        found.append(f"{history.name} is {len(history.on_record)} jobs")
    ids = {call.job for call in history.calls if call.job} | {one.job for one in history.on_record}
    if len(ids) > 1:
        found.append(f"{history.name} was answered with {len(ids)} jobs")
    workers = [start.worker for start in history.starts]
    found += [f"{history.name}: worker {one} ran twice" for one in set(workers) if workers.count(one) > 1]
    return found


def contradictions(history: History) -> list[str]:
    calls = history.calls + history.on_record
    return [
        f"{history.name}: {text}" for text in (*_backwards(calls), *_ran_on(history), *_unexplained(calls))
    ]


# ------------------------------------------------------------------------------------------ single rules


def _backwards(calls: Sequence[Call]) -> Iterator[str]:
    """Who asks after an answer sees nothing older than it: version and attempt never fall, an end stays."""
    seen = [call for call in calls if call.answered is not None and call.version]
    for later in seen:
        for earlier in seen:
            if earlier.until < later.begun and _older(later, earlier):
                yield f"{later} was seen after {earlier}"
                return


def _older(later: Call, earlier: Call) -> bool:
    ended_otherwise = earlier.phase in ENDS and later.phase != earlier.phase
    return later.version < earlier.version or later.attempt < earlier.attempt or ended_otherwise


def _ran_on(history: History) -> Iterator[str]:
    """No attempt begins after a confirmed stop, nor after a confirmed pause before somebody wants to resume.

    What was on its way when the call was answered belongs to the attempt that the answer tells of.
    """
    for call in history.calls:
        if call.answered is None or call.what not in ("stop", "pause") or call.answer == REFUSED:
            continue
        if not call.version:
            continue
        resumed = [
            other.begun for other in history.calls if other.what == "resume" and other.until > call.begun
        ]
        until = min(resumed, default=FOR_EVER) if call.what == "pause" else FOR_EVER
        for start in history.starts:
            if call.answered < start.at < until and start.attempt > call.attempt:
                yield f"attempt {start.attempt} began at {start.at:.2f} after {call}"


# -------------------------------------------------------------------------------------- the whole order


def _unexplained(calls: Sequence[Call]) -> list[str]:
    """Empty if there is an order that explains all answers."""
    ordered = sorted(calls, key=lambda call: call.begun)
    longest = _search(ordered)
    if longest == len([call for call in ordered if call.answered is not None]):
        return []
    told = "\n  ".join(map(str, ordered))
    return [f"no order explains what was seen (at most {longest} answers):\n  {told}"]


def _search(calls: Sequence[Call]) -> int:
    """The most answers that one order explains: all of them, if the history is right."""
    whole = sum(1 << number for number, call in enumerate(calls) if call.answered is not None)
    waiting: list[tuple[int, State]] = [(0, State())]
    known = set(waiting)
    best = 0
    while waiting:
        done, state = waiting.pop()
        best = max(best, (done & whole).bit_count())
        if done & whole == whole:
            break
        # A call may come next only if none that is left was answered before it began.
        first = min(call.until for number, call in enumerate(calls) if not done >> number & 1)
        following = [(done, end) for end in _ends(state)]
        for number, call in enumerate(calls):
            if not done >> number & 1 and call.begun <= first:
                following += [(done | 1 << number, after) for after in _after(state, call)]
        for one in following:
            if one not in known:
                known.add(one)
                waiting.append(one)
    return best


def _ends(state: State) -> list[State]:
    """What may happen by itself. A job that is being stopped may still come to its own end first."""
    if not state.wanted or state.ended:
        return []
    ends = ENDS if state.wanted == "stop" else ("succeeded", "failed")
    return [State(state.wanted, end) for end in ends]


def _after(state: State, call: Call) -> list[State]:
    """States in which the call can have left the job, given what was answered."""
    new, refused = _effect(state, call.what)
    if call.answered is None:
        return [new]
    if call.answer == NOT_THERE:
        return [state] if not state.wanted else []
    if not state.wanted and call.what != "submit":
        return []
    if call.answer == REFUSED:
        return [state] if refused else []
    if refused:
        return []
    return [seen for seen in (new, *_ends(new)) if _shows(seen, call)]


def _effect(state: State, what: str) -> tuple[State, bool]:
    """The state after a call, and whether the call is refused."""
    if what == "submit":
        return (state if state.wanted else State("run")), False
    if what == "read" or not state.wanted:
        return state, False
    if what == "stop":
        if state.ended:
            return state, state.wanted != "stop"  # who asks again is answered as before
        return State("stop"), False
    if state.ended or state.wanted == "stop":
        return state, True
    return State("pause" if what == "pause" else "run"), False


def _shows(state: State, call: Call) -> bool:
    if call.phase in ENDS:
        return state.ended == call.phase
    return not state.ended and state.wanted == call.answer
