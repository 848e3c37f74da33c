"""A job behind a service: the commands over HTTP.

What the service refuses becomes the error that the same command gives on a local catalog. The token is taken
from the environment, never from the command line, where others could read it.
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
from anabranch.cli.target import FIELDS
from anabranch.model.errors import JobError, RunError
from anabranch.model.stream import Stream
from anabranch.model.subscription import Moment

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.results.writing import ResultTables

TOKEN = "ANABRANCH_TOKEN"
TIMEOUT_S = 60.0
#: Rows per request.
ROWS = 10_000


class RemoteJob:
    def __init__(self, address: str) -> None:
        from anabranch.service.access import is_loopback

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

    def __enter__(self) -> RemoteJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def subscribe(
        self, name: str, query: str, activate: Moment | None, deliver: str | None = None
    ) -> dict[str, Any]:
        body = {"name": name, "query": query, "activate": _written(activate), "deliver": deliver}
        facts = self._sent("POST", "subscriptions", json=body).json()
        return _facts(facts) | {"secret": (facts["delivery"] or {}).get("secret")}

    def new_secret(self, name: str) -> str:
        return str(self._sent("POST", f"secrets/{_quoted(name)}").json()["secret"])

    def cancel(self, name: str, time: Moment | None) -> None:
        params = {} if time is None else {"at": str(_written(time))}
        self._sent("DELETE", f"subscriptions/{_quoted(name)}", params=params)

    def subscriptions(self, every: bool, counts: bool = False) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            params = {"all": every, "counts": counts, "after": after, "limit": 1_000}
            page = self._sent("GET", "subscriptions", params=params).json()
            keys = (*FIELDS, "delivery", "results") if counts else (*FIELDS, "delivery")
            out += [{key: each[key] for key in keys} for each in page["subscriptions"]]
            after = page["next"]
        return out

    def results(self, name: str) -> tuple[str, list[ResultTables]]:
        facts = self._sent("GET", f"subscriptions/{_quoted(name)}").json()
        addresses = (f"#{facts['number']}", *facts["parts"])
        parts = [self._pages(f"results/{_quoted(part)}") for part in addresses]
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

    def _pages(self, path: str) -> ResultTables:
        """All pages, as Arrow: the types are those of the results."""
        first, after = self._page(path, "")

        def tables() -> Iterator[pa.Table]:
            table, next_page = first, after
            while True:
                if table.num_rows:
                    yield table
                if next_page is None:
                    return
                table, next_page = self._page(path, next_page)

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
    return {key: given[key] for key in FIELDS}


def _written(moment: Moment | None) -> int | float | str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment


def _quoted(name: str) -> str:
    return quote(name, safe="")
