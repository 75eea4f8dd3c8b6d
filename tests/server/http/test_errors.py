"""How an error leaves a route."""

import asyncio

import httpx2
from fastapi import FastAPI

from grus.server.http.errors import Refusal, on_refusal


def test_a_refusal_in_a_route_is_an_answer_and_nothing_breaks_after_it() -> None:
    app = FastAPI()
    app.add_exception_handler(Refusal, on_refusal)

    @app.get("/")
    async def refused() -> None:
        raise Refusal(503, "busy", "Too many.", retry_after=1.0)

    async def asked() -> httpx2.Response:
        transport = httpx2.ASGITransport(app)  # raises what the app raises, even after an answer
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/")

    answer = asyncio.run(asked())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
