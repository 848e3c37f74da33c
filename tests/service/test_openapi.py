"""Drawn requests against the service's own description: no answer that it does not describe, and none that
says that the service failed.
"""

from __future__ import annotations

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance  # not every text is a query

#: A small number: the suite must stay quick. More find more.
EXAMPLES = 6


def test_answers_are_as_described(address: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.startswith("/api/events"):
            continue  # it answers until the stream ends

        @settings(
            max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
        )
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(excluded_checks=[positive_data_acceptance], timeout=20)

        check()
        seen.add(operation.path)
    assert len(seen) == 15


def test_every_refusal_is_described(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    envelope = {"$ref": "#/components/schemas/ErrorEnvelope"}
    for path, methods in paths.items():
        for described in methods.values():
            statuses = set(described["responses"]) - {"200", "201"}
            assert statuses or path == "/health"
            for status in statuses:
                assert described["responses"][status]["content"]["application/json"]["schema"] == envelope
