"""The service of a job in a thread of the process that runs its streams. Signals are left to the job."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.routing import APIRoute

from anabranch.model.errors import JobError, RunError
from anabranch.service import dashboard_routes, errors, files, routes
from anabranch.service.access import Access, is_loopback
from anabranch.service.admission import Admission
from anabranch.service.batch_history import BatchHistory
from anabranch.service.connections import Connections, connections_allowed, protocol_settings
from anabranch.service.current_results import CurrentResults
from anabranch.service.job_service import JobService
from anabranch.service.metrics import Metrics
from anabranch.service.plan_boxes import PlanBoxes
from anabranch.service.positions import Positions
from anabranch.service.query_checks import QueryChecks

#: How long open connections get when the service stops.
GRACE_S = 2
PATIENCE_S = 20.0
#: So many connections may wait in the kernel, however few are accepted at once (connections.py).
WAITING_TO_BE_ACCEPTED = 1_024


ABOUT = """Standing queries on streams: register and cancel them, read their results by page or live.

Every refusal has one form: `error.code`, `error.message`, `error.text` as the command line shows it,
and `error.place` where a query is wrong."""


def make_app(service: JobService) -> FastAPI:
    """Returns the application of a service: its paths, who may use them, and its errors."""
    app = FastAPI(
        title="Anabranch",
        description=ABOUT,
        version="1",
        docs_url=None,  # the pages that come with the framework load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=_operation,
    )
    app.state.service, app.state.access, app.state.metrics = service, Access(service), Metrics(service)
    app.state.checks = QueryChecks(service)
    app.state.history, app.state.current_results = BatchHistory(service), CurrentResults()
    app.state.positions, app.state.plan_boxes = Positions(service), PlanBoxes(service.plan)
    app.add_middleware(Admission, access=app.state.access)
    errors.handle(app)
    app.include_router(routes.api)
    app.include_router(routes.about)
    app.include_router(dashboard_routes.api)
    app.include_router(files.pages)
    return app


def _operation(route: APIRoute) -> str:
    return route.name


def check_address(host: str, tokens: bool) -> None:
    """Raises JobError where others could reach a service that has no tokens."""
    if not is_loopback(host) and not tokens:
        raise JobError(
            f"the service would listen on {host}, where others can reach it, and there are no tokens yet: "
            "make one first (anabranch token create job.toml OWNER), or leave --host out"
        )


@contextmanager
def serving(service: JobService, host: str, port: int) -> Iterator[str]:
    """Serves while the context lasts; gives the address. Port 0 takes a free port."""
    check_address(host, service.tokens.exist())
    service.local = is_loopback(host)
    listening = _bound(host, port)
    connections = Connections(connections_allowed(service.limits.connections), service.limits.body_bytes)
    settings = uvicorn.Config(
        make_app(service),
        **protocol_settings(connections),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([listening],), name="service", daemon=True)
    thread.start()
    try:
        _wait(server, thread)
        listening.listen(WAITING_TO_BE_ACCEPTED)
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(GRACE_S + PATIENCE_S)
        listening.close()
        service.close()


def _bound(host: str, port: int) -> socket.socket:
    """Returns a bound socket, before anything else starts, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so asyncio sets TCP_NODELAY
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise JobError(
            f"the service cannot listen on {host}:{port}: {error.strerror}; try another --port"
        ) from None
    return bound


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RunError("the service did not start")
        time.sleep(0.02)
