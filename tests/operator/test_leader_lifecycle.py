"""When a controller ends."""

import pytest

from grus.operator import leader_lifecycle
from grus.operator.leader_lifecycle import Brake


def test_one_that_was_asked_to_end_before_it_could_lead_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Never:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def acquire(self) -> bool:
            pytest.fail("it waits until it leads")

        def release(self) -> None:
            pass

    class Options:
        namespace = identity = ""
        lease = renew = 1.0

    monkeypatch.setattr(leader_lifecycle, "Leadership", Never)
    brake = Brake()
    brake.pull()
    assert leader_lifecycle.lead(None, Options(), brake) == 0  # type: ignore[arg-type]  # nothing of them is used
