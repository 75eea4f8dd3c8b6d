"""Leader terms: a counter in a Lease, for a store that acts without leader election. Each take-over
increments it.
"""

from datetime import UTC, datetime

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Conflicts, Exists, Missing
from grus.kubernetes.client.leader_election import claimed, epoch_of
from grus.kubernetes.client.resource_kinds import LEASES
from grus.model.errors import StoreFailed

NAME = "grus-store"
TRIES = 20


def next_epoch(api: Api, namespace: str, name: str = NAME) -> int:
    """Increment the counter; no two callers get the same value."""
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
