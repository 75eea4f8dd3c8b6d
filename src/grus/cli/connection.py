"""The way to the server: one connection a command, and finding the job that people mean.

A job is meant by its id, by the beginning of an id if only one begins so, or by its name: the one live job of
that name, else the newest that ended. Anything that could mean two jobs is refused with the list of them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from grus.model.errors import BadInput, GrusError, Mistake, NotFound, Unreachable
from grus.model.phases import TERMINAL

if TYPE_CHECKING:
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client

ID_LENGTH = 11
"""Length of a whole job id: `j` and ten more characters."""
LOOKED_AT = 1000
"""Jobs among which a name or the beginning of an id is looked for, newest first."""
QUICK = 0.5
"""Seconds that the completion of a word may take."""


def connect(*, timeout: float = 30.0, patience: float = 30.0) -> "Client":
    """Return a client of the server found here, or of the one that `--server` or GRUS_SERVER names.

    With `--kubernetes` (GRUS_KUBERNETES), return a client of a cluster's API instead.
    """
    if os.environ.get("GRUS_KUBERNETES"):
        from grus.cli.kubernetes.install_commands import client

        return client()
    from grus.cli.render.output import hint
    from grus.sdk.client import Client

    try:
        return Client(timeout=timeout, patience=patience, notice=hint)
    except Unreachable as error:  # no address is known
        from grus.cli.server.service_checks import service_elsewhere
        from grus.sdk.state_paths import places

        raise Unreachable(" ".join(filter(None, (str(error), service_elsewhere(places()))))) from None


@contextmanager
def connected() -> "Iterator[Client]":
    """A connection for the length of one command."""
    client = connect()
    try:
        yield client
    finally:
        client.close()


@contextmanager
def connected_here() -> "Iterator[Client]":
    """Connect to the server of this machine's state, even if GRUS_SERVER or a login names another server."""
    client = connect_here()
    try:
        yield client
    finally:
        client.close()


def connect_here() -> "Client":
    from grus.cli.render.output import hint
    from grus.sdk.client import Client
    from grus.sdk.state_paths import places, running
    from grus.sdk.transport import Transport

    elsewhere = {"GRUS_SERVER", "GRUS_TOKEN"} if os.environ.get("GRUS_SERVER") else set[str]()
    here = {name: value for name, value in os.environ.items() if name not in elsewhere}
    server = running(places(here))
    address = None if server is None else server.address
    return Client(transport=Transport(address, None, timeout=30.0, patience=30.0, env=here), notice=hint)


def find_job(client: "Client", meant: str) -> "JobOut":
    """The job that the words mean. Raises NotFound, or BadInput when they could mean several."""
    if len(meant) == ID_LENGTH and meant.startswith("j"):
        try:
            return client.job(meant)
        except NotFound:
            pass  # it may still be a name
    known = client.jobs(limit=LOOKED_AT)
    named = [job for job in known if job.name == meant]
    live = [job for job in named if job.phase not in TERMINAL]
    found = live or named[:1] or [job for job in known if job.id.startswith(meant)]
    if not found:
        raise NotFound(f"There is no job {meant!r}. `grus ps -a` lists the ones that there are.")
    if len(found) > 1:
        listed = ", ".join(f"{job.id} ({job.name}, {job.phase})" for job in found)
        raise BadInput(
            [Mistake("job", f"could mean any of {len(found)}: {listed}; give more of the id", meant)]
        )
    return found[0]


def the_one(kind: str, meant: str, known: list[str]) -> str:
    """The one of `known` that begins so. Raises NotFound, or BadInput when several do."""
    found = [one for one in known if one == meant] or [
        one for one in known if meant and one.startswith(meant)
    ]
    if not found:
        raise NotFound(f"There is no {kind} {meant!r}. `grus {kind} list` lists the ones that there are.")
    if len(found) > 1:
        raise BadInput([Mistake(kind, f"could mean any of {len(found)}; give more of it", meant)])
    return found[0]


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Ids and names of jobs for the shell; nothing when the server is slow or away."""
    try:
        known = connect(timeout=QUICK, patience=0.0).jobs(limit=100)
    except (GrusError, OSError):
        return []
    words = [(job.id, f"{job.name}, {job.phase}") for job in known]
    words += [(job.name, f"{job.phase}, {job.queue}") for job in known if job.phase not in TERMINAL]
    return [(word, help_) for word, help_ in words if word.startswith(incomplete)]


def complete_queue(incomplete: str) -> list[str]:
    try:
        return [
            queue.name
            for queue in connect(timeout=QUICK, patience=0.0).queues()
            if queue.name.startswith(incomplete)
        ]
    except (GrusError, OSError):
        return []


def complete_node(incomplete: str) -> list[str]:
    try:
        return [
            node.id for node in connect(timeout=QUICK, patience=0.0).nodes() if node.id.startswith(incomplete)
        ]
    except (GrusError, OSError):
        return []


JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Id, beginning of an id, or name.", autocompletion=complete_job)
]
JobsArgument = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Ids, beginnings of ids, or names.", autocompletion=complete_job),
]
