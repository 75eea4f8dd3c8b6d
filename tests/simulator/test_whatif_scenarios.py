"""What-if: the worlds that are compared, the sentence, and changes that make no sense."""

from dataclasses import replace

import pytest

from grus.model.errors import BadInput
from grus.model.resources import GPU
from grus.simulator import result_summary
from grus.simulator.cluster_spec import count_gpus, parse_nodes, quotas_by_use, shares
from grus.simulator.outcome_metrics import MeasuredTimes
from grus.simulator.whatif_scenarios import (
    PRESENT,
    STATIC,
    WHAT_IF,
    Chaos,
    Scenario,
    ScenarioChange,
    changed,
    compare,
    resample,
    static_split,
    with_load,
)
from grus.simulator.workload.job_work import TraceJob
from tests.scheduler.builders import a_queue
from tests.simulator.scenes import FREE, a_work


def a_scenario(works: list[TraceJob] | None = None, times: float = 1.0) -> Scenario:
    """Two nodes of four GPUs, two queues of four, and more to do than they can at once."""
    usual = [
        a_work(f"{queue}{i:02}", queue=queue, submit=times * 20.0 * i, gpus=2, duration=times * (100.0 + i))
        for queue in ("a", "b")
        for i in range(20)
    ]
    queues = a_queue("a", quota=4), a_queue("b", quota=4)
    return Scenario(PRESENT, parse_nodes("2x4xV100"), queues, tuple(works or usual), FREE)


def test_more_gpus_shorten_the_wait_and_the_sentence_says_so() -> None:
    found = compare(a_scenario(times=200.0), ScenarioChange(add_nodes="1x4xV100"))
    now, then = found.side(PRESENT), found.side(WHAT_IF)
    assert now is not None
    assert then is not None
    assert (now.outcomes[0].gpus, then.outcomes[0].gpus) == (8, 12)
    assert then.outcomes[0].wait_mean < now.outcomes[0].wait_mean
    sentence = result_summary.answer(found)
    assert sentence.startswith("Yes, buy: with 1x4xV100 more, jobs complete in ")
    assert sentence.count("instead of") == 3


def test_gpus_that_nobody_needs_are_not_recommended() -> None:
    days = [a_work(f"x{i:02}", queue="a", submit=9_000.0 * i, gpus=4, duration=8_900.0) for i in range(20)]
    found = compare(a_scenario(days), ScenarioChange(add_nodes="1x4xV100"))
    assert result_summary.answer(found).startswith("No, do not buy yet: ")


def test_advice_to_buy_says_what_it_lacks() -> None:
    found = compare(a_scenario([a_work("x", queue="a")]), ScenarioChange(add_nodes="1x4xV100"))
    assert result_summary.missing(found) == [
        "at least 2 days of jobs (there are 1.7m)",
        "at least 20 jobs (there are 1)",
        "a pool used to at least 30% (it is used to 12%)",
    ]
    assert result_summary.answer(found).startswith("No advice on buying: it needs at least 2 days of jobs")


def test_a_simulation_far_from_what_was_measured_gives_no_advice() -> None:
    found = compare(a_scenario(times=200.0), ScenarioChange(add_nodes="1x4xV100"))
    outcome = found.sides[0].outcomes[0]
    names = MeasuredTimes.__dataclass_fields__
    was = MeasuredTimes(**{name: getattr(outcome, name) for name in names})
    assert result_summary.missing(replace(found, measured=was)) == []
    [lack] = result_summary.missing(replace(found, measured=replace(was, jct_mean=was.jct_mean / 3)))
    assert lack.startswith("a simulation within 50% of the measured mean completion")


def test_other_changes_are_told_without_advice() -> None:
    found = compare(a_scenario(), ScenarioChange(load=1.5, quotas={"a": 2}))
    assert result_summary.answer(found).startswith(
        "With quota a=2 and at 1.5 times the load, jobs complete in "
    )


def test_another_policy_is_a_change_like_others() -> None:
    """Users of a queue take turns today; under fifo the one who came last waits for all who came first."""
    lengths = (100.0, 1000.0, 100.0)
    works = [
        a_work(f"ann{n}", queue="a", gpus=4, user="ann", submit=n, duration=length)
        for n, length in enumerate(lengths)
    ]
    works += [a_work("bob", queue="a", gpus=4, user="bob", submit=5.0, duration=10.0)]
    scene = replace(a_scenario(works), nodes=parse_nodes("1x8xV100"))
    found = compare(scene, ScenarioChange(policy="fifo"), static=False)
    now, then = found.side(PRESENT), found.side(WHAT_IF)
    assert now is not None
    assert then is not None
    assert then.outcomes[0].wait_mean - now.outcomes[0].wait_mean == (98 + 195 - 108 - 95) / 4
    assert result_summary.answer(found).startswith("Under the policy fifo, jobs complete in ")


def test_several_seeds_give_intervals_and_the_same_figures_again() -> None:
    change = ScenarioChange(remove=("node-1",))
    first = compare(a_scenario(), change, seeds=3, chaos=Chaos(3600.0, 60.0))
    second = compare(a_scenario(), change, seeds=3, chaos=Chaos(3600.0, 60.0))
    assert repr(first) == repr(second)
    assert [len(side.outcomes) for side in first.sides] == [3, 3, 3]
    heading, rows = result_summary.table(first)
    assert heading == ["", PRESENT, WHAT_IF, STATIC]
    assert any("±" in cell for row in rows for cell in row)
    assert "95 % interval" in result_summary.answer(first)


def test_seed_zero_is_the_trace_as_it_is_and_others_keep_who_comes_when() -> None:
    works = list(a_scenario().works)
    assert resample(works, 0) == works
    other = resample(works, 1)
    assert [(w.id, w.submit, w.queue) for w in other] == [(w.id, w.submit, w.queue) for w in works]
    assert [w.duration for w in other] != [w.duration for w in works]
    assert other == resample(works, 1)


@pytest.mark.parametrize(("load", "least", "most"), [(1.5, 50, 70), (2.0, 80, 80), (0.5, 10, 30)])
def test_load_multiplies_the_jobs(load: float, least: int, most: int) -> None:
    found = with_load(a_scenario().works, load, seed=1)
    assert least <= len(found) <= most
    assert len({work.id for work in found}) == len(found)


def test_a_static_split_lends_nothing() -> None:
    only_a = [a_work(f"a{i}", queue="a", gpus=2) for i in range(4)] + [a_work("b", queue="b", submit=110.0)]
    found = compare(a_scenario(only_a), ScenarioChange())
    now, split = found.side(PRESENT), found.side(STATIC)
    assert now is not None
    assert split is not None
    assert (now.outcomes[0].makespan, split.outcomes[0].makespan) == (210.0, 210.0)
    assert (now.outcomes[0].wait_mean, split.outcomes[0].wait_mean) == (0.0, 40.0)
    assert result_summary.against_static(found).startswith(
        "One pool instead of a static split: jobs complete in "
    )
    assert result_summary.answer(found) == ""


def test_a_job_larger_than_its_share_of_a_static_split_runs_on_all_of_it() -> None:
    split = static_split(a_scenario([a_work("big", queue="a", gpus=6), a_work("b", queue="b")]))
    big = next(work for work in split.works if work.id == "big")
    assert (big.gpus, big.duration) == (4, 150.0)
    assert [(queue.limit, queue.reserved) for queue in split.queues] == [(4 * GPU, 4 * GPU)] * 2


def test_an_elastic_job_in_a_static_split_keeps_to_its_share() -> None:
    works = [a_work("e", queue="a", gpus=2, size=(2, 8)), a_work("b", queue="b")]
    elastic = next(work for work in static_split(a_scenario(works)).works if work.id == "e")
    assert (elastic.low, elastic.high, elastic.gpus) == (2, 4, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (ScenarioChange(remove=("node-0", "node-1")), "leaves no node"),
        (ScenarioChange(remove=("node-9",)), "names no node; there are node-0, node-1"),
        (ScenarioChange(quotas={"c": 2}), "names no queue; there are a, b"),
        (ScenarioChange(quotas={"a": -1}), "must be from 0"),
        (ScenarioChange(quotas={"a": 7}), "sum to 11, but the pool has 8"),
        (ScenarioChange(add_nodes="8xA100"), "write nodes x GPUs x type"),
        (ScenarioChange(load=0.0), "above zero"),
        (ScenarioChange(policy="luck"), "must be one of fifo, fair"),
    ],
)
def test_changes_that_make_no_sense_are_named(change: ScenarioChange, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        changed(a_scenario(), change, 0)


def test_a_job_that_the_smaller_pool_could_never_run_is_named_before_anything_runs() -> None:
    works = [a_work("wide", queue="a", gpus=4), a_work("b", queue="b")]
    ran: list[object] = []
    with pytest.raises(BadInput, match="more than the pool could ever give"):
        compare(
            Scenario(PRESENT, parse_nodes("1x4xV100+1x2xV100"), (a_queue("a"), a_queue("b")), tuple(works)),
            ScenarioChange(remove=("node-0",)),
            runner=lambda scenarios: ran.extend(scenarios) or [],  # type: ignore[func-returns-value]  # extend gives None, which is meant
        )
    assert ran == []


# -------------------------------------------------------------------------------------------------- pools


def test_a_pool_is_written_as_nodes_times_gpus_times_type() -> None:
    nodes = parse_nodes("2x8xA100+1x2xRTX3060+1x1xA100:40GB")
    assert [(node.id, len(node.devices)) for node in nodes] == [
        ("node-0", 8),
        ("node-1", 8),
        ("node-2", 2),
        ("node-3", 1),
    ]
    assert nodes[0].devices[0].memory == 80_000_000_000
    assert nodes[3].devices[0].memory == 40_000_000_000


@pytest.mark.parametrize(
    "text", ["", "2x8", "0x8xA100", "2x0xA100", "2x8xA100+", "ax8xA100", "99999x9999xA100"]
)
def test_a_pool_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_nodes(text)


def test_quotas_by_use_are_whole_and_sum_to_the_pool() -> None:
    works = [
        a_work("x", queue="x", gpus=3, duration=10.0),
        a_work("y", queue="y", gpus=1, duration=10.0),
        a_work("z", queue="z", gpus=1, duration=0.01),
    ]
    nodes = parse_nodes("1x8xV100")
    quotas = {queue.name: queue.quota.total // GPU for queue in quotas_by_use(works, nodes)}
    assert quotas == {"x": 6, "y": 2, "z": 0}
    assert sum(shares({work.queue: 1.0 for work in works}, count_gpus(nodes), least=1).values()) == 8
