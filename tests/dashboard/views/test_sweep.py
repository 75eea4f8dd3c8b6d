"""What the page of a sweep and the file of one say: how far it is, what is best, a line a trial."""

import json
import math
import re
from dataclasses import replace

from grus.api.wire_types.sweep import SweepOut
from grus.dashboard.routes.sweep import look
from grus.dashboard.views.sweep import SweepPageData, about, amount, best, charts, parts, row
from grus.dashboard.views.sweep_export import page, search_of, sentence
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.model.jobs import Job, JobType, Phase
from grus.model.sweep_search import Budget, Goal, Rule, Sweep
from tests.dashboard.sweeps import put_sweep, put_trial
from tests.dashboard.views.searches import RATE, WIDTH, a_search, a_trial
from tests.dashboard.views.test_job_charts import EVIL
from tests.server.house import House
from tests.store.builders import a_job

ADA = User(name=UserName("ada"), role=AccessRole.MEMBER)
VIC = User(name=UserName("vic"), role=AccessRole.VIEWER)
SOME = (
    replace(a_trial(0, 0.9), gpu_seconds=1800.0),
    replace(a_trial(1, 0.25, Phase.RUNNING, lr=0.1, width=256), gpu_seconds=1800.0, gpus=0.5),
    a_trial(2, None, Phase.PENDING),
    replace(a_trial(3, None, Phase.PAUSED), held_back=True),
)


def a_sweep_job(**changes: object) -> Job:
    job = a_job("jsweep", phase=Phase.RUNNING)
    return replace(job, spec=replace(job.spec, type=JobType.SWEEP), **changes)  # type: ignore[arg-type]  # fields of a job


def seen(user: User = ADA) -> SweepPageData:
    budget = Budget(trials=20, gpu_seconds=7200.0, target=0.1)
    search = a_search(*SOME, sweep=Sweep(axes=(RATE, WIDTH), metric="loss", budget=budget), best=1)
    return SweepPageData(job=a_sweep_job(), user=user, now=1060.0, search=search)


def test_the_tiles_say_how_far_it_is_of_what_it_may_take() -> None:
    texts = parts(seen())["texts"]
    assert (texts["trials"], texts["trials_of"]) == ("4", "of 20 in all")
    assert texts["states"] == "1 running, 1 pending, 1 held back, 1 ended"
    assert (texts["hours"], texts["hours_of"], texts["gpus"]) == ("1", "of 2 GPU-hours", "0.5")
    assert texts["lasted"] == "1m"


def test_what_took_next_to_nothing_says_so_and_nothing_is_nothing() -> None:
    assert [amount(hours) for hours in (0.0, 5e-5, 0.25, 123.4)] == ["0", "< 0.001", "0.25", "123"]


def test_the_best_so_far_is_named_with_its_parameters() -> None:
    found = best(seen().search)
    assert (found["value"], found["number"], found["label"]) == ("0.25", 1, "lowest loss; target 0.1")
    assert found["params"] == [["lr", "0.1"], ["width", "256"]]
    assert best(a_search(a_trial(0, None)))["number"] is None


def test_a_line_has_words_to_read_and_figures_to_sort_by() -> None:
    found = row(SOME[1], seen().search)
    assert (found["best"], found["value"], found["value_words"]) == (True, 0.25, "0.25")
    assert found["params"] == [[0.1, "0.1"], [2, "256"]]
    assert (found["hours"], found["state"]) == (0.5, "running")
    json.dumps(row(replace(SOME[0], value=None, curve=((1.0, math.nan),)), seen().search), allow_nan=False)


def test_who_may_only_look_is_told_why_no_button_can_be_pressed() -> None:
    assert parts(seen())["buttons"]["pause"] == ""
    assert parts(seen(VIC))["buttons"]["pause"] != ""


def test_every_rule_of_an_early_end_has_words() -> None:
    for rule in Rule:
        sweep = replace(seen().search.sweep, stopping=replace(seen().search.sweep.stopping, rule=rule))
        assert about(a_sweep_job(), a_search(sweep=sweep))["stopping"]


# --------------------------------------------------------------------------------------------- as one file


def test_the_file_says_what_was_best_and_lists_all_trials_the_best_first() -> None:
    text = page("tune", seen().search, "/* plotly */")
    assert "4 trials took 1 GPU-hours; the lowest is loss 0.25 of trial 1: lr 0.1, width 256." in text
    assert re.findall(r"<tr><td>(\d+)</td>", text) == ["1", "0", "2", "3"]
    highest = replace(seen().search, sweep=replace(seen().search.sweep, goal=Goal.MAXIMIZE))
    assert "the highest is" in sentence(highest)


def test_the_file_is_made_of_what_the_server_tells_of_a_sweep(house: House) -> None:
    sweep = put_sweep(house.store)
    put_trial(house.store, sweep, 0, (("lr", 0.01), ("width", 64)), [2.0, 0.5])
    put_trial(house.store, sweep, 1, (("lr", 0.1), ("width", 128)), [3.0], Phase.STOPPED)
    told = SweepOut.model_validate(house.ask("GET", f"/v1/sweeps/{sweep.id}", "ada").json())
    found, shown = (
        search_of(told),
        look(house.services, house.services.accounts.whoami("ada-token"), sweep.id).search,
    )
    assert found.sweep.axes == shown.sweep.axes
    assert [(one.params, one.curve, one.value) for one in found.trials] == [
        (one.params, one.curve, one.value) for one in shown.trials
    ]
    assert found.best == shown.best == 0


def test_the_file_knows_every_colour_of_its_charts() -> None:
    """It has no style sheet in which a name could be looked up."""
    search = replace(seen().search, importance=(("lr", 1.0),))
    assert "--chart" in json.dumps(charts(search))
    assert not re.search(r'[:,\[]"--', page("tune", search, ""))


def test_what_people_wrote_is_text_in_the_file() -> None:
    trial = replace(a_trial(0, 1.0), params=((EVIL, EVIL),))
    search = replace(a_search(trial, best=0), importance=((EVIL, 1.0),))
    text = page(EVIL, replace(search, sweep=replace(search.sweep, metric=EVIL)), "")
    assert "<b>x" not in text
    assert "&lt;b&gt;x" in text
