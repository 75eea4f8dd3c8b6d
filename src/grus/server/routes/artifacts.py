"""Artifacts of jobs, as a download that can be resumed."""

import logging
import subprocess
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from grus.model.identifiers import JobId, UserName
from grus.server.http.dependencies import Does, JobPath, Live, NamePath, Who, off_loop
from grus.server.http.event_streams import Streams

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["jobs"])

PIECE = 1 << 20


@router.get("/jobs/{id}/artefacts/{name}", response_class=Response)
async def artefact(
    id: JobPath, name: NamePath, user: Who, does: Does, live: Live, offset: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """Send a tar of the job's artifact with this name, from byte `offset` on: the same bytes every time.

    The header `Grus-Artefact` is the digest of its content.
    """
    kept, process = await off_loop(does.outputs.archive, user, JobId(id), name, offset)
    return Archive(process, live, user.name, {"Grus-Artefact": kept.digest})


class Archive(StreamingResponse):
    """Output of a process as a response; the process ends with the download, however that ends."""

    media_type = "application/x-tar"

    def __init__(
        self, process: "subprocess.Popen[bytes]", streams: Streams, person: UserName, headers: dict[str, str]
    ) -> None:
        super().__init__(self._pieces(), headers={**headers, "X-Accel-Buffering": "no"})
        self._process = process
        self._streams = streams
        self._person = person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.place(self._person):
                await super().__call__(scope, receive, send)
        finally:
            self._process.kill()
            await off_loop(self._process.communicate)

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for piece in self.body_iterator:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if await off_loop(self._process.wait) == 0:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        # Without the end of the body the server closes the connection, so that a part is not read as all.
        assert self._process.stderr is not None
        log.error("a download broke off: %s", (await off_loop(self._process.stderr.read)).decode().strip())

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        output = self._process.stdout
        assert output is not None
        while piece := await off_loop(output.read1, PIECE):  # type: ignore[attr-defined]  # a BufferedReader
            yield piece
