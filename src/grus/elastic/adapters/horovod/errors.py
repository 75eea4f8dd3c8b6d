"""Exceptions that interrupt a training function, under Horovod's names; `elastic.run` catches both."""


class HorovodInternalError(RuntimeError):
    """An exchange failed: a worker was lost. What was not committed is undone."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers come or go as planned. Nothing is undone."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the team changes")
        self.skip_sync = skip_sync
