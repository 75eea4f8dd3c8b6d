"""Adds the pages to the app: one module a page, each with its `router`. None of them is in the OpenAPI."""

import time

from fastapi import FastAPI

from grus.dashboard import (
    admin,
    graph,
    history,
    job,
    jobs,
    keeping,
    pages,
    pool,
    queues,
    runs,
    signing_in,
    simulate,
    static,
    submit,
    sweep,
)
from grus.server.codes import Codes

PAGES = (
    admin,
    graph,
    history,
    job,
    jobs,
    pool,
    queues,
    runs,
    signing_in,
    simulate,
    static,
    submit,
    sweep,
)
"""In the order of the alphabet."""


def mount(app: FastAPI) -> None:
    """The pages, what they load, and errors in a form for people. Only what is here is shown in the menu."""
    for part in PAGES:
        app.router.routes.extend(part.router.routes)
    app.state.codes = Codes(time.monotonic, "Run `grus dashboard` again, or paste a token.")
    pages.prepare(app)
    keeping.keep(app)
