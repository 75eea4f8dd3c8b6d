"""Jobs that were submitted together, over the wire."""

from typing import Annotated

from pydantic import Field

from grus.api import fields as f
from grus.api.job_in import JobIn
from grus.api.job_out import JobOut
from grus.api.out import Out
from grus.api.rules import Strict
from grus.api.stages_in import MOST_STAGES


class GraphIn(Strict):
    """Jobs to be stored together, or not at all."""

    jobs: Annotated[tuple[JobIn, ...], Field(max_length=MOST_STAGES)]
    """Each behind those that it names in `after` and `inputs`, by their names."""
    fresh: f.Flag = False
    """Run all of them, also those of which nothing has changed since an earlier run."""


class GraphStageOut(Out):
    job: JobOut
    after: tuple[str, ...] = ()
    """Ids of those of the graph that it comes after."""
    depth: int = 0
    """Length of the longest way to it; 0 for those that come after nobody."""
    earlier: bool = False
    """Whether it is of an earlier submission, from which others take something."""


class GraphOut(Out):
    id: str
    stages: tuple[GraphStageOut, ...]
    """Each behind those that it comes after."""
