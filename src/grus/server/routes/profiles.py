"""Routes of learned facts: profiles of fingerprints, and the profile of one job."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from grus.api.profile_wire import LearnedOut, ProfileOut
from grus.model.identifiers import JobId
from grus.server.http.dependencies import Does, JobPath, Who, answer, answers, off_loop

router = APIRouter(prefix="/v1", tags=["profiles"])
FingerprintPath = Annotated[
    str, Path(min_length=1, max_length=64, description="A fingerprint, or the beginning of one.")
]


@router.get("/profiles", response_model=list[ProfileOut])
async def list_profiles(user: Who, does: Does) -> Response:
    """List the profile of each fingerprint: the user's own, and all of them for administrators."""
    return answers(
        ProfileOut, [ProfileOut.from_model(one) for one in await off_loop(does.insight.profiles, user)]
    )


@router.get("/profiles/{fingerprint}", response_model=ProfileOut)
async def one_profile(fingerprint: FingerprintPath, user: Who, does: Does) -> Response:
    return answer(ProfileOut.from_model(await off_loop(does.insight.profile, user, fingerprint)))


@router.get("/jobs/{id}/profile", response_model=LearnedOut)
async def of_job(id: JobPath, user: Who, does: Does) -> Response:
    """Return a job's fingerprint, its profile, and the expectation before it ran."""
    found = await off_loop(lambda: does.insight.of(does.visible.get(user, JobId(id))))
    return answer(LearnedOut.from_model(found, job=id))
