"""The service in a thread of the process that runs the streams.

In: a desk and an address. Out: a server that listens until it is closed. Never: signals; they belong to the
job that runs beside it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from anabranch.model.errors import JobError, RunError
from anabranch.service.app import make_app
from anabranch.service.desk import Desk
from anabranch.service.gate import is_loopback

#: How long open connections get when the service stops.
GRACE_S = 2
PATIENCE_S = 20.0


def check_address(host: str, tokens: bool) -> None:
    """Elsewhere than on loopback, whoever comes must be known."""
    if not is_loopback(host) and not tokens:
        raise JobError(
            f"the service would listen on {host}, where others can reach it, and there are no tokens yet: "
            "make one first (anabranch token create job.toml OWNER), or leave --host out"
        )


@contextmanager
def serving(desk: Desk, host: str, port: int) -> Iterator[str]:
    """Serves while the context lasts; gives the address. Port 0 takes one that is free."""
    check_address(host, desk.tokens.exist())
    desk.local = is_loopback(host)
    listening = _bound(host, port)
    settings = uvicorn.Config(
        make_app(desk),
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
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(GRACE_S + PATIENCE_S)
        listening.close()
        desk.close()


def _bound(host: str, port: int) -> socket.socket:
    """Bound before anything else starts, so that a port that is taken is said at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise JobError(
            f"the service cannot listen on {host}:{port}: {error.strerror}; try another --port"
        ) from None
    return made


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RunError("the service did not start")
        time.sleep(0.02)
