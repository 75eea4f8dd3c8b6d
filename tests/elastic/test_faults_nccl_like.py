"""Faults of a training job on a backend that fails as NCCL does: silently. What must hold is in `faults`."""

from tests.elastic.faults import Faults


class TestNcclLike(Faults):
    backend = "nccl-like"
