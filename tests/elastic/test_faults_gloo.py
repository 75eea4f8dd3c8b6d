"""Faults of a training job on gloo, which raises errors. What must hold is in `faults`."""

from tests.elastic.faults import Faults


class TestGloo(Faults):
    backend = "gloo"
