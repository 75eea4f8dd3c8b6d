"""How long a job will run, by what jobs like it did."""

import pytest

from grus.model.identifiers import QueueName, UserName
from grus.simulator.forecasting.durations import FEWEST, NO_END, Durations, Law, Traits


def traits(name: str = "resnet", user: str = "ann", queue: str = "vision", gpus: float = 1) -> Traits:
    return Traits(name, UserName(user), QueueName(queue), gpus)


def a_history(*ran: float, of: Traits | None = None, into: Durations | None = None) -> Durations:
    """Jobs of one sort that came an hour apart and ran so long, one after the other."""
    made = into if into is not None else Durations()
    sort, first = of or traits(), made.finished
    for number, seconds in enumerate(ran):
        job, at = f"{sort.name}-{sort.user}-{first + number}", (first + number) * 3600.0
        made.came(job, sort, at)
        made.began(job, sort, at)
        made.ended(job, seconds)
    return made


def law_of(durations: Durations, like: Traits, now: float = 1e6) -> Law:
    found = durations.law("asked", like, now)
    assert found is not None
    return found


def test_jobs_like_it_give_the_quantiles() -> None:
    law = law_of(a_history(*range(100, 200)), traits())
    assert 100 <= law.quantile(0.1) < law.quantile(0.5) < law.quantile(0.9) < 200


def test_too_few_finished_jobs_of_its_queue_say_nothing() -> None:
    durations = a_history(*[60.0] * (FEWEST - 1))
    assert durations.law("asked", traits(), 1e6) is None
    a_history(*[60.0] * 50, of=traits(queue="speech"), into=durations)
    assert durations.law("asked", traits(), 1e6) is None, "jobs of another queue are not like it"


def test_its_own_name_counts_more_than_its_queue() -> None:
    durations = a_history(*[60.0] * 40, of=traits("other", "bob", gpus=8))
    a_history(*[7200.0] * 20, into=durations)
    assert law_of(durations, traits()).quantile(0.5) == 7200
    assert law_of(durations, traits("other", "bob", gpus=8)).quantile(0.5) == 60


def test_a_single_run_of_its_own_is_shrunk_towards_its_queue() -> None:
    durations = a_history(*[60.0] * 40, of=traits("other", "bob"))
    a_history(90000.0, into=durations)
    assert law_of(durations, traits()).quantile(0.5) == 60


def test_later_jobs_count_more_than_earlier_ones() -> None:
    assert law_of(a_history(*[60.0] * 200, *[600.0] * 60), traits()).quantile(0.5) == 600


def test_what_it_has_run_already_is_the_least_it_will_run() -> None:
    law = law_of(a_history(*[60.0] * 50, *[6000.0] * 10), traits())
    assert law.quantile(0.5) == 60
    assert law.quantile(0.5, ran=61.0) == 6000


def test_a_job_that_runs_longer_than_any_before_is_said_to_run_as_long_again() -> None:
    law = law_of(a_history(*[60.0] * 50), traits())
    assert law.quantile(0.5, ran=500.0) == pytest.approx(1000.0)
    assert law.quantile(0.9, ran=500.0) == pytest.approx(5000.0)


def test_jobs_that_still_run_make_the_law_longer() -> None:
    """Of ten jobs that began together five ended after a minute; the others have run for two hours."""
    durations = Durations()
    for number in range(10):
        durations.came(str(number), traits(), 0.0)
        durations.began(str(number), traits(), 0.0)
    for number in range(5):
        durations.ended(str(number), 60.0)
    law = law_of(durations, traits(), now=7200.0)
    assert law.quantile(0.4) == 60
    assert law.quantile(0.9) > 7200


def test_jobs_of_a_burst_are_like_jobs_of_a_burst() -> None:
    durations = Durations()
    for number in range(60):  # Every hour ten short ones within ten seconds; every other hour a long one.
        hour = number * 7200.0
        for job, at, ran in [(f"s{number}-{k}", hour + k, 60.0) for k in range(10)] + [
            (f"l{number}", hour + 3600.0, 20000.0)
        ]:
            durations.came(job, traits(), at)
            durations.began(job, traits(), at)
            durations.ended(job, ran)
    durations.came("first", traits(), 1e6)
    durations.came("second", traits(), 1e6 + 1)
    alone, burst = (durations.law(job, traits(), 1e6 + 1) for job in ("first", "second"))
    assert alone is not None
    assert burst is not None
    assert burst.survival(1000.0) < alone.survival(1000.0)


def test_a_time_limit_caps_every_quantile() -> None:
    law = law_of(a_history(*[6000.0] * 10), traits()).capped(600.0)
    assert law.quantile(0.9) == 600
    assert NO_END.capped(30.0).quantile(0.1) == 30


def test_a_job_that_never_began_tells_nothing() -> None:
    durations = Durations()
    durations.came("stopped", traits(), 0.0)
    durations.ended("stopped", 0.0)
    assert durations.finished == 0
