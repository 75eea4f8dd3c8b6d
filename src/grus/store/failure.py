"""The one error that a store adds to the tree: the disk or the database failed, not the caller."""

from grus.model.errors import GrusError


class StoreFailed(GrusError):
    """The store could not do its work. What was asked for may not have lasted; asking again is harmless.

    Never a verdict on a job: it is as it was, or (if only the confirmation was lost) as it was asked to be.
    """

    code = "store_failed"
    status = 503
