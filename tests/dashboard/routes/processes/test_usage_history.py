"""The History page with a simulation in a process of its own."""

from tests.dashboard.routes.test_usage_history import asked
from tests.server.house import House
from tests.server.routes.test_reports import ran


def test_whether_to_buy_is_answered_by_playing_the_same_jobs_again(house: House) -> None:
    job = ran(house)
    house.engine.finish(job)
    house.settle()
    found = asked(house, "ada")
    assert found["stage"] == "done", found
    answer = found["answer"]
    assert isinstance(answer, dict)
    assert "1x4xvirtual-16GB" in answer["title"]
    assert answer["sentences"]
