"""How a run gets into an environment and its record out of it: one file each, behind `environments.Driver`.

staging     the folder that a driver keeps for a comparison, and what a run leaves in it
local       this machine
slurm       sbatch, on a folder that the nodes share
kubernetes  a pod a run, in any cluster: nothing of Grus is needed there
grus        a job of a pool
watching    waiting for a run, also through a restart of the environment
pods        what such a pod is, and what its status says
parcels     what comes home on a log, where no folder is shared
"""

from importlib.util import find_spec

from grus.comparison.environments import Driver, Environment, Kind
from grus.model.errors import BadInput, Mistake


def of(environment: Environment) -> Driver:
    """The driver of an environment. Nothing is asked or started yet."""
    if environment.kind is Kind.LOCAL:
        from grus.comparison.drivers.local import Local

        return Local(environment)
    if environment.kind is Kind.SLURM:
        from grus.comparison.drivers.slurm import Slurm

        return Slurm(environment)
    if environment.kind is Kind.KUBERNETES:
        if find_spec("lightkube") is None:
            rule = "needs lightkube, which is not installed: pip install 'grus-gpu[kubernetes]'"
            raise BadInput([Mistake("env", rule, str(environment))])
        from grus.comparison.drivers.kubernetes import Kubernetes

        return Kubernetes(environment)
    from grus.comparison.drivers.grus import Grus

    return Grus(environment)
