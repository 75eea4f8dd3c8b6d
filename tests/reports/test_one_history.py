"""One history, one result: report, static split, simulation and dashboard on three recorded histories."""

from dataclasses import replace
from typing import Any

import pytest

from grus.dashboard.views.usage_history import view
from grus.dashboard.whatif.simulation_form import Question
from grus.dashboard.whatif.simulation_worker import play
from grus.reports.build_report import report
from grus.reports.static_split import of_past, split
from grus.reports.text_tables import completion_sentence
from grus.reports.wire import report_out
from grus.simulator import result_summary
from grus.simulator.events.decision_executor import Costs
from grus.simulator.whatif_scenarios import ScenarioChange, compare
from grus.simulator.workload.history_trace import decode, encode, measured
from tests.reports.histories import NAMES, past_of, recorded

CLOSE = 0.15
"""Part by which a simulated mean completion may be off the measured one on these histories."""


def on_the_dashboard(question: Question) -> dict[str, Any]:
    told: list[dict[str, object]] = []
    play(question, told.append, lambda: 0.0)
    answer = told[-1]["answer"]
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("name", NAMES)
def test_four_ways_give_the_same_figures(name: str) -> None:
    past = past_of(recorded(name))
    reported = report_out(report(past))
    history = decode(encode(of_past(past)))  # as the command line reads it
    static = split(history, buying=False)
    simulated = compare(history.scenario(), ScenarioChange())
    question = Question(
        title="", present=of_past(past).scenario(), change=ScenarioChange(), measured=measured(of_past(past))
    )
    shown = on_the_dashboard(question)
    assert reported.completion is not None
    assert static is not None
    was = measured(history)
    assert was is not None
    # What was measured: the report, the static split and the simulation's column.
    assert static.sides[0] == reported.completion
    assert reported.completion.completion_mean == was.jct_mean
    assert view(reported)["completion"] == completion_sentence(reported.completion)
    # What is simulated: the static split, the simulation and the dashboard, to the digit.
    for side, outcome in zip(static.sides[1:], (one.outcomes[0] for one in simulated.sides), strict=True):
        assert (side.completion_mean, side.wait_mean) == (outcome.jct_mean, outcome.wait_mean)
    rows = result_summary.table(simulated)[1]
    assert [[row[0], *row[2:]] for row in shown["tables"][0]["rows"]] == rows
    assert shown["tables"][0]["heading"] == ["", "measured", "present", "static split"]
    # The model is stated with how far it is off, and it is not far off.
    assert static.model in shown["notes"]
    assert "measured" in static.model
    assert abs(static.sides[1].completion_mean / was.jct_mean - 1) < CLOSE


@pytest.mark.parametrize("name", NAMES)
def test_a_general_start_cost_would_count_start_up_twice(name: str) -> None:
    history = of_past(past_of(recorded(name)))
    assert history.start_cost < 0.5
    present = history.scenario()
    twice = compare(replace(present, costs=Costs()), ScenarioChange(), static=False).sides[0]
    once = compare(present, ScenarioChange(), static=False).sides[0]
    assert twice.outcomes[0].jct_mean > once.outcomes[0].jct_mean + 9.0


@pytest.mark.parametrize("name", NAMES)
def test_minutes_of_data_give_no_advice_to_buy(name: str) -> None:
    found = split(of_past(past_of(recorded(name))))
    assert found is not None
    assert found.buying.startswith("No advice on buying: it needs at least 2 days of jobs (there are ")
    assert "Yes" not in found.buying
