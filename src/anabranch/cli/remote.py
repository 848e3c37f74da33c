"""A job behind a service: the commands over HTTP.

In: an address, and a token in the environment. Out: what the service answers; its refusals as the errors that
the same command gives on a local catalog. Never: a token on the command line, where others could read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx

from anabranch.catalog.entries import load_stream
from anabranch.cli.local import FACTS
from anabranch.cli.place import Found
from anabranch.model.errors import JobError, RunError
from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN = "ANABRANCH_TOKEN"
TIMEOUT_S = 60.0
#: Rows a request.
ROWS = 10_000


class Remote:
    def __init__(self, address: str) -> None:
        from anabranch.service.gate import is_loopback

        token = os.environ.get(TOKEN)
        try:
            host = urlsplit(address).hostname or ""
        except ValueError as error:
            raise JobError(f"{address} is not the address of a service: {error}") from None
        self.address = address.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=TIMEOUT_S,
            trust_env=not is_loopback(host),  # no proxy stands before this machine
        )

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        asked = {"name": name, "query": query, "activate": _written(activate), "deliver": deliver}
        return _facts(self._sent("POST", "subscriptions", json=asked).json())

    def cancel(self, name: str, at: Moment | None) -> None:
        params = {} if at is None else {"at": str(_written(at))}
        self._sent("DELETE", f"subscriptions/{_quoted(name)}", params=params)

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            params = {"all": every, "counts": counts, "after": after, "limit": 1_000}
            page = self._sent("GET", "subscriptions", params=params).json()
            keys = (*FACTS, "delivery", "results") if counts else (*FACTS, "delivery")
            out += [{key: each[key] for key in keys} for each in page["subscriptions"]]
            after = page["next"]
        return out

    def asked(self, name: str) -> tuple[str, list[Found]]:
        facts = self._sent("GET", f"subscriptions/{_quoted(name)}").json()
        parts = [self._pages(f"results/{_quoted(part)}") for part in (facts["label"], *facts["parts"])]
        return facts["query"], parts

    def streams(self) -> dict[str, Stream]:
        return {
            each["name"]: load_stream(
                each["name"],
                json.dumps([[column["name"], column["type"]] for column in each["columns"]]),
                json.dumps(each["settings"]),
            )
            for each in self._sent("GET", "streams").json()
        }

    def dead_letters(self, stream: str) -> Iterator[pa.Table]:
        _, tables = self._pages(f"dead-letters/{_quoted(stream)}")
        return tables

    def _pages(self, path: str) -> Found:
        """All pages, as Arrow: the types are those of the results."""
        first, after = self._page(path, "")

        def tables() -> Iterator[pa.Table]:
            table, place = first, after
            while True:
                if table.num_rows:
                    yield table
                if place is None:
                    return
                table, place = self._page(path, place)

        return first.schema, tables()

    def _page(self, path: str, after: str) -> tuple[pa.Table, str | None]:
        import pyarrow as pa

        from anabranch.service.routes import ARROW, MORE, NEXT

        params = {"after": after, "limit": ROWS}
        answer = self._sent("GET", path, params=params, headers={"Accept": ARROW})
        table = pa.ipc.open_stream(answer.content).read_all()
        return table, answer.headers[NEXT] if answer.headers[MORE] == "true" else None

    def _sent(self, method: str, path: str, **settings: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, f"{self.address}/api/{path}", **settings)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"{type(error).__name__}: {error}"
            raise RunError(f"the service at {self.address} cannot be reached ({said})") from None
        if answer.is_success:
            return answer
        try:
            said = answer.json()["error"]["text"]
        except (ValueError, KeyError, TypeError):
            raise RunError(
                f"{self.address} answered {answer.status_code}, not as a service of ours does"
            ) from None
        hint = f" ({TOKEN} has it)" if answer.status_code == 401 else ""
        raise (RunError if answer.status_code >= 500 else JobError)(f"{said}{hint}")


def _facts(given: dict[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in FACTS}


def _written(moment: Moment | None) -> int | float | str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment


def _quoted(name: str) -> str:
    return quote(name, safe="")
