"""A Slurm of the tests' own, with two pretended nodes; the programs of this process find it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.slurm_cluster import SlurmCluster, installed


@contextmanager
def a_slurm() -> Iterator[SlurmCluster]:
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    if not installed():
        pytest.skip("Slurm is not installed: tools/system-packages does it")
    before = dict(os.environ)
    with SlurmCluster(tuned=True, gpus_per_node=2) as cluster:
        os.environ.update({name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")})
        try:
            yield cluster
        finally:
            os.environ.clear()
            os.environ.update(before)
