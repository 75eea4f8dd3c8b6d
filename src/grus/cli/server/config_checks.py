"""Checks of config.toml against the running server, for `grus doctor`."""

from grus.cli import connection
from grus.model.errors import GrusError
from grus.sdk.state_paths import GrusPaths


def unknown_in_config(at: GrusPaths) -> str:
    """Name the users and queues of config.toml that do not exist; "" if all do, or no administrator asks."""
    from grus.server.config import load
    from grus.server.runtime.unknown_names import unknown_names

    try:
        with connection.connected_here() as client:
            if client.status().role != "admin":  # others see only themselves
                return ""
            users = {one.name for one in client.users()}
            queues = {one.name for one in client.queues()}
    except GrusError:
        return ""
    return "; ".join(unknown_names(load(at), users, queues))
