"""A counter in a Lease, for a store that acts without leader election: each take-over is the next epoch."""

from datetime import UTC, datetime

from grus.kubernetes.api import Api
from grus.kubernetes.kinds import LEASES
from grus.kubernetes.leadership import claimed, epoch_of
from grus.kubernetes.refusals import Conflicts, Exists, Missing
from grus.model.errors import StoreFailed

NAME = "grus-store"
TRIES = 20


def next_epoch(api: Api, namespace: str, name: str = NAME) -> int:
    """No two callers get the same one."""
    for _ in range(TRIES):
        try:
            lease = api.get(LEASES, name, namespace)
        except Missing:
            lease = {"metadata": {"name": name, "namespace": namespace}}
        wanted = claimed(lease, "grus", 1, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        try:
            new = "resourceVersion" not in lease["metadata"]
            return epoch_of(api.create(LEASES, wanted) if new else api.replace(LEASES, wanted))
        except (Conflicts, Exists):
            continue
    raise StoreFailed(f"the Lease {namespace}/{name} is being changed all the time; try again")
