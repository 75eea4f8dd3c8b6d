"""Adds the pages to the app: one module a page, each with its `router`. None of them is in the OpenAPI."""

import time

from fastapi import FastAPI

from grus.dashboard import page_rendering, static_files
from grus.dashboard.live_state import shared_context
from grus.dashboard.routes import (
    admin,
    cluster_overview,
    job,
    jobs,
    login,
    queues,
    runs,
    simulate,
    submit,
    sweep,
    usage_history,
    workflow,
)
from grus.server.http.one_time_codes import Codes

PAGES = (
    admin,
    usage_history,
    job,
    jobs,
    cluster_overview,
    queues,
    runs,
    login,
    simulate,
    static_files,
    submit,
    sweep,
    workflow,
)
"""All pages, in alphabetical order."""


def mount(app: FastAPI) -> None:
    """The pages, what they load, and errors in a form for people. Only what is here is shown in the menu."""
    for part in PAGES:
        app.router.routes.extend(part.router.routes)
    app.state.codes = Codes(time.monotonic, "Run `grus dashboard` again, or paste a token.")
    page_rendering.prepare(app)
    shared_context.keep(app)
