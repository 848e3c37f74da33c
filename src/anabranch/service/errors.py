"""One form for everything that goes wrong: a status and

    {"error": {"code": "query", "message": "unknown column 'enn' in stream photons; did you mean 'en'?",
               "text": "... with the line of the query and a mark below", "place": {"offset": 7, ...}}}

Errors of ours, of the framework and unexpected ones all have it. No traceback leaves the service.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anabranch.model.errors import AnabranchError, JobError, QueryError, TooManyError

log = logging.getLogger("anabranch.service")


class Refused(JobError):
    """A request that is refused, with the status that says why."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers


def unknown(message: str) -> Refused:
    return Refused(404, "unknown", message)


#: Codes of the framework's own refusals.
CODES = {400: "request", 401: "token", 403: "role", 404: "unknown", 405: "method", 413: "size", 429: "limit"}


def response_to(error: Exception) -> JSONResponse:
    """Returns the response to an error."""
    match error:
        case Refused():
            return envelope(error.status, error.code, str(error), headers=error.headers)
        case QueryError():
            return envelope(422, "query", error.message, str(error), _position(error))
        case TooManyError():
            return envelope(429, "limit", str(error))
        case JobError():
            return envelope(400, "request", str(error))
        case RequestValidationError():
            large = any(map(_is_large_query, error.errors()))
            said = "; ".join(map(_in_words, error.errors()))
            return envelope(413, "size", said) if large else envelope(422, "request", said)
        case HTTPException():
            code = CODES.get(error.status_code, "request")
            return envelope(error.status_code, code, str(error.detail), headers=dict(error.headers or {}))
        case AnabranchError():
            log.error("%s", error)
            return envelope(503, "failed", str(error))
        case _:
            log.error("unexpected %s", type(error).__name__, exc_info=error)
            return envelope(
                500, "failed", f"unexpected {type(error).__name__}; the log of the service has more"
            )


def envelope(
    status: int,
    code: str,
    message: str,
    text: str | None = None,
    place: dict[str, int] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    body = {"error": {"code": code, "message": message, "text": text or message, "place": place}}
    return JSONResponse(body, status, headers)


def handle(app: FastAPI) -> None:
    """Gives every error of the application this form."""

    async def handler(request: Request, error: Exception) -> JSONResponse:
        return response_to(error)

    for kind in (AnabranchError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handler)


def _position(error: QueryError) -> dict[str, int] | None:
    """Returns where in the query it is; lines and columns from 1."""
    if error.offset is None:
        return None
    before = error.text[: error.offset]
    column = error.offset - (before.rfind("\n") + 1) + 1
    return {
        "offset": error.offset,
        "length": error.length,
        "line": before.count("\n") + 1,
        "column": column,
    }


def _is_large_query(wrong: dict[str, Any]) -> bool:
    return wrong.get("type") == "string_too_long" and tuple(wrong.get("loc", ()))[-1:] == ("query",)


def _in_words(wrong: dict[str, Any]) -> str:
    """`body.query: Field required`"""
    return f"{'.'.join(map(str, wrong.get('loc', ())))}: {wrong.get('msg', 'wrong')}"
