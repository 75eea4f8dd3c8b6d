"""The proofs behind the table of trust: how each is run, short and long, and what it has to show.

A part is a program that prints one JSON object of figures as its last line. A promise is a line of the
table: a figure of a part, and the rule that it has to keep. Sizes of long parts are those of one run, small
enough that little is lost when it is broken off; what several runs have shown adds up (`counting`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, object]
FAILED = "ended_with"
"""Among the figures of a program that has failed: its exit code. Programs check more than has a line here."""
Rule = Callable[[float, Figures], bool]


@dataclass(frozen=True, slots=True)
class Part:
    """One program."""

    name: str
    short: str
    """The command after `python -m`."""
    long: str
    """Of one run. `{next}` is the seed after those of the runs before, `{jobs}` how many processes it has."""
    size: str
    """The figure that says how much was tried."""
    full: float
    """Its value in a long proof that is whole."""
    alone: bool = False
    """It measures time, so nothing runs beside it."""
    repeats: bool = False
    """It tries the same in every run, so that the latest one counts; runs of the others add up."""
    most: frozenset[str] = frozenset()
    """Figures of which the largest counts, as of times and sizes; other numbers of several runs are added."""
    seen: tuple[str, ...] = ()
    """What a long table tells beside the promises: texts with the names of figures in them."""

    @property
    def program(self) -> str:
        return self.short.split()[0]


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the table."""

    claim: str
    part: str
    figure: str
    aim: str
    kept: Rule


def none(value: float, _: Figures) -> bool:
    return value == 0


def at_most(limit: float) -> Rule:
    return lambda value, _: value <= limit


def all_of(other: str) -> Rule:
    """As many as another figure of the same part says."""

    def rule(value: float, figures: Figures) -> bool:
        whole = figures.get(other)
        return isinstance(whole, int | float) and whole > 0 and value >= whole

    return rule


SIMULATE, CRASHES = "tests.trust.simulate", "tests.trust.crash_points"
CHAOS, ATTACK = "tests.trust.chaos", "tests.trust.attack"

PARTS = (
    Part("load", "tests.trust.load", "tests.trust.load --minutes 10", "minutes", 10, alone=True, repeats=True,
         seen=("{submitted} submits", "submit p50 {submit_p50_ms} ms", "p99 of lists {list_p99_ms} ms",
               "of reasons {why_p99_ms} ms", "of events {events_p99_ms} ms", "{rss_mb} MB in the end",
               "{rss_kb_per_waiting_job} KB a waiting job", "{pruned} old events removed",
               "up after {start_s} s")),
    Part("detection", "tests.trust.detection", "tests.trust.detection", "rounds", 3, alone=True, repeats=True,
         seen=("moved after {moved_s} s", "cut off after {hang_cut_off_s} s", "went on after {went_on_s} s")),
    Part("kills", "tests.chaos.server_kills 50", "tests.chaos.server_kills 100", "kills", 1000, alone=True,
         seen=("{acknowledged} jobs acknowledged", "{reattached} known again", "{not_reattached} not")),
    Part("simulate", SIMULATE, f"{SIMULATE} --seconds 600 --from {{next}} --jobs {{jobs}}", "events", 10**8,
         alone=True, seen=("{histories} histories",)),
    Part("planted", "tests.trust.planted", "tests.trust.planted", "planted", 30, repeats=True,
         seen=("{caught_by_simulation} caught by simulation",)),
    Part("crashes", f"{CRASHES} --scenarios 5 --every 3", f"{CRASHES} --scenarios 20", "scenarios", 20,
         repeats=True, seen=("{points} points", "{second_points} of {second_in_all} second deaths")),
    Part("power", "tests.trust.power_loss --cuts 50", "tests.trust.power_loss --cuts 250 --from {next}",
         "cuts", 500,
         seen=("{acknowledged} acknowledged writes", "{checkpoint_cuts} cuts of checkpoints",
               "{control_lost} of {control_cuts} cuts seen to lose without syncs")),
    Part("orphans", "tests.chaos.stops 100", "tests.chaos.stops 500", "stops", 1000,
         seen=("{processes_killed} processes killed", "the slowest stop {slowest_s} s")),
    Part("resumes", "tests.elastic.checkpoint_kills 50", "tests.elastic.checkpoint_kills 500", "kills", 1000,
         seen=("{inside} while one was written", "{steps} steps")),
    Part("chaos", f"{CHAOS} --minutes 1", f"{CHAOS} --minutes 15 --seed {{next}}", "minutes", 15,
         seen=("{kills} kills", "{stops} freezes", "{full_disks} full and {slow_disks} slow disks",
               "{jumps} jumps of the clock", "{calls} calls", "{unanswered} of them unanswered",
               "{failed_starts} starts failed on a full disk")),
    Part("attack", f"{ATTACK} --cases 1000", f"{ATTACK} --cases 5000 --seed {{next}}", "cases", 10_000,
         most=frozenset({"routes", "routes_tested", "routes_reached", "routes_described"}),
         seen=("{attacks} intrusions", "{route_answers} answers of routes")),
    Part("upgrades", "tests.trust.upgrades", "tests.trust.upgrades --backups 20", "backups", 20, repeats=True,
         seen=("{acknowledged} jobs in back-ups", "{restored_lost} lost")),
    Part("audit", "tests.trust.audit", "tests.trust.audit", "audited", 1, repeats=True,
         seen=("{audited} of {packages} pinned packages",)),
)  # fmt: skip

PROMISES = (
    Promise("violations in simulated histories", "simulate", "violations", "0", none),
    Promise("planted bugs caught", "planted", "caught", "100 %", all_of("planted")),
    Promise("crash points survived", "crashes", "survived", "100 %", all_of("points")),
    Promise("second deaths survived", "crashes", "second_survived", "100 %", all_of("second_points")),
    Promise("jobs lost by kill -9 of the server", "kills", "lost", "0", none),
    Promise("jobs run twice after kill -9", "kills", "twice", "0", none),
    Promise("seconds until all jobs are known again, p99", "kills", "reattach_p99_s", "≤ 10", at_most(10)),
    Promise("acknowledged writes lost by power cuts", "power", "lost", "0", none),
    Promise("files damaged by power cuts", "power", "corrupt", "0", none),
    Promise("processes left after a stop", "orphans", "processes_left", "0", none),
    Promise("corrupt resumes", "resumes", "corrupt", "0", none),
    Promise("seconds until a lost GPU is noticed", "detection", "lost_gpu_noticed_s", "≤ 10", at_most(10)),
    Promise("seconds until a hang is noticed", "detection", "hang_noticed_s", "≤ 120", at_most(120)),
    Promise("contradictions in what clients saw under chaos", "chaos", "contradictions", "0", none),
    Promise("jobs lost under chaos", "chaos", "lost", "0", none),
    Promise("jobs run twice under chaos", "chaos", "twice", "0", none),
    Promise("servers that ended by themselves under chaos", "chaos", "server_deaths", "0", none),
    Promise("processes left after chaos", "chaos", "left_processes", "0", none),
    Promise("milliseconds of a submit under load, p99", "load", "submit_p99_ms", "≤ 100", at_most(100)),
    Promise("errors under load", "load", "errors", "0", none),
    Promise("server errors under fuzz", "attack", "server_errors", "0", none),
    Promise("leaks under fuzz", "attack", "leaks", "0", none),
    Promise("answers of routes to whom they are not due", "attack", "route_wrongs", "0", none),
    Promise("intrusions survived", "attack", "survived", "100 %", all_of("attacks")),
    Promise("routes with authorisation tests", "attack", "routes_tested", "100 %", all_of("routes")),
    Promise("schemas that open", "upgrades", "opened", "100 %", all_of("schemas")),
    Promise("damages that fsck finds", "upgrades", "fsck_found", "100 %", all_of("fsck_damages")),
    Promise("deaths while restoring survived", "upgrades", "restore_survived", "100 %",
            all_of("restore_deaths")),
    Promise("findings in dependencies", "audit", "findings", "0", none),
)  # fmt: skip
