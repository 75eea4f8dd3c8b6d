"""Wire models of workflow graphs: jobs that were submitted together."""

from typing import Annotated

from pydantic import Field

from grus.api.inputs.job_schema import JobIn
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.api.wire_types.base import Out
from grus.api.wire_types.job import JobOut
from grus.model.job_spec import MOST_STAGES


class GraphIn(Strict):
    """Jobs to store together, or not at all."""

    jobs: Annotated[tuple[JobIn, ...], Field(max_length=MOST_STAGES)]
    """Jobs in order: each follows those that it names in `after` and `inputs`, by their names."""
    fresh: f.Flag = False
    """Run all of them, also those that are unchanged since an earlier run."""


class GraphStageOut(Out):
    job: JobOut
    after: tuple[str, ...] = ()
    """Ids of the jobs of the graph that it depends on."""
    depth: int = 0
    """Length of the longest path to it; 0 for jobs without dependencies."""
    earlier: bool = False
    """True if it belongs to an earlier submission whose outputs others use."""


class GraphOut(Out):
    id: str
    stages: tuple[GraphStageOut, ...]
    """Stages in order: each follows those that it depends on."""
