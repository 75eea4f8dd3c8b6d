"""Drivers of environments, one file each, behind `environments.Driver`: bring a run in and its record out.

staging     the folder that a driver keeps for a comparison, and the files that a run leaves in it
local       this machine
slurm       sbatch, on a folder that the nodes share
kubernetes  a pod per run, in any cluster: nothing of Grus is needed there
grus        a job of a pool
watching    waiting for a run, also through a restart of the environment
pods        definition of such a pod, and the meaning of its status
parcels     results that come home on a log, for environments without a shared folder
"""

from importlib.util import find_spec

from grus.compare.environments import Driver, Environment, EnvironmentKind
from grus.model.errors import BadInput, Mistake


def of(environment: Environment) -> Driver:
    """The driver of an environment. Nothing is asked or started yet."""
    if environment.kind is EnvironmentKind.LOCAL:
        from grus.compare.backends.local_runner import Local

        return Local(environment)
    if environment.kind is EnvironmentKind.SLURM:
        from grus.compare.backends.slurm import Slurm

        return Slurm(environment)
    if environment.kind is EnvironmentKind.KUBERNETES:
        if find_spec("lightkube") is None:
            rule = "needs lightkube, which is not installed: pip install 'grus-gpu[kubernetes]'"
            raise BadInput([Mistake("env", rule, str(environment))])
        from grus.compare.backends.kubernetes import Kubernetes

        return Kubernetes(environment)
    from grus.compare.backends.grus import Grus

    return Grus(environment)
