"""The application: paths, gate and errors around a desk."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.routing import APIRoute

from anabranch.service import errors, files, routes, watching
from anabranch.service.answers import Answers
from anabranch.service.desk import Desk
from anabranch.service.gate import BodyLimit, Gate
from anabranch.service.history import History
from anabranch.service.metrics import Metrics
from anabranch.service.positions import Positions

ABOUT = """Standing queries on streams: register and cancel them, read their results by page or live.

Every refusal has one form: `error.code`, `error.message`, `error.text` as the command line shows it,
and `error.place` where a query is wrong."""


def make_app(desk: Desk) -> FastAPI:
    app = FastAPI(
        title="Anabranch",
        description=ABOUT,
        version="1",
        docs_url=None,  # the pages that come with the framework load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=_operation,
    )
    app.state.desk, app.state.gate, app.state.metrics = desk, Gate(desk), Metrics(desk)
    app.state.history, app.state.answers, app.state.positions = History(desk), Answers(), Positions(desk)
    app.add_middleware(BodyLimit, most=desk.limits.body_bytes)
    errors.handle(app)
    app.include_router(routes.api)
    app.include_router(routes.about)
    app.include_router(watching.api)
    app.include_router(files.pages)
    return app


def _operation(route: APIRoute) -> str:
    return route.name
