"""Parts of a job that come from its submitter's machine, which containers elsewhere do not have."""

import os
from collections.abc import Sequence

from grus.api.inputs.job_schema import JobIn
from grus.model.job_spec import is_bundle


def without_folder(job: JobIn) -> tuple[JobIn, str]:
    """Return the job without a workdir that is a folder of this machine, and that folder; "" if it names
    none.

    Any other workdir is a place in the image, or code that is in the cluster already.
    """
    folder = job.workdir
    if not folder or is_bundle(folder) or not os.path.isdir(folder):
        return job, ""
    return job.model_copy(update={"workdir": ""}), os.path.abspath(folder)


def notice(variables: Sequence[str], folders: Sequence[str]) -> str:
    """Return a sentence for the submitter: the parts that were not sent, the reason, and how the code gets
    into the pod.
    """
    parts = [*variables, *(f"the folder {folder}" for folder in dict.fromkeys(folders) if folder)]
    if not parts:
        return ""
    return (
        f"Not sent: {', '.join(parts)}. This server runs jobs in containers on other machines. The code must"
        " be in the image (image: NAME); `grus --kubernetes submit` sends the folder's code along."
    )
