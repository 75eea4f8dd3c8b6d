"""The benchmark of epochs: who is told of rhythms loses less, and the figures are of the same jobs."""

from benchmarks.epochs import BORROWER, LENGTHS, side, works

HOURS = 2.0
SHORT = LENGTHS["15s_60s"]


def test_less_is_lost_where_rhythms_are_told_and_nobody_who_waits_is_forgotten() -> None:
    blind = side(3, HOURS, SHORT, told=False, reports=False)
    told = side(3, HOURS, SHORT, told=True, reports=False)
    assert told.lost / told.pauses < blind.lost / blind.pauses
    assert told.waits.keys() == blind.waits.keys()


def test_trainings_save_at_the_end_of_their_epochs_only() -> None:
    trainings = [work for work in works(3, HOURS, SHORT) if work.queue == BORROWER]
    assert all(work.save_every is not None and 15.0 <= work.save_every <= 60.0 for work in trainings)
    assert all(work.grace == 0.0 for work in trainings), "a pause leaves no time to save"
