"""Drawn requests against the service's own description: no answer that it does not describe, and none that
says that the service failed.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel
from schemathesis.specs.openapi.checks import positive_data_acceptance  # not every text is a query

from anabranch.service import dashboard_models, models, routes
from tests.drawn import examples

#: A small number: the suite must stay quick. More find more.
EXAMPLES = 6


@pytest.mark.slow
def test_answers_are_as_described(
    address: str, tokens: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # every operation is tried with a wrong token, more often than one address may (test_tokens.py)
    monkeypatch.setattr("anabranch.service.access._WRONG", (1e6, 1e6))
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.startswith("/api/events"):
            continue  # it answers until the stream ends

        @settings(max_examples=examples(EXAMPLES), suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(
                excluded_checks=[positive_data_acceptance], timeout=20, headers=tokens["root"]
            )

        check()
        seen.add(operation.path)
    assert len(seen) == 18


def test_every_refusal_is_described(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    envelope = {"$ref": "#/components/schemas/ErrorEnvelope"}
    for path, methods in paths.items():
        for described in methods.values():
            statuses = set(described["responses"]) - {"200", "201"}
            assert statuses or path == "/health"
            for status in statuses:
                assert described["responses"][status]["content"]["application/json"]["schema"] == envelope


def test_the_token_is_described(http: httpx.Client) -> None:
    """So that generated clients can send one."""
    document = http.get("/openapi.json").json()
    (name, scheme), *others = document["components"]["securitySchemes"].items()
    assert (scheme["type"], scheme["scheme"], others) == ("http", "bearer", [])
    for path, methods in document["paths"].items():
        for described in methods.values():
            assert described.get("security", []) == ([] if path == "/health" else [{name: []}])


def test_every_answer_has_an_example(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()

    def exemplified(node: Any) -> bool:
        """Here, or in what it refers to."""
        if isinstance(node, list):
            return any(map(exemplified, node))
        if not isinstance(node, dict):
            return False
        name = node.get("$ref", "").rpartition("/")[2]
        known = "example" in node or "examples" in node
        return known or any(map(exemplified, [document["components"]["schemas"].get(name), *node.values()]))

    for path, methods in document["paths"].items():
        for method, described in methods.items():
            done = [said for status, said in described["responses"].items() if status in ("200", "201")]
            assert done, (method, path)
            assert all(map(exemplified, [*done, described.get("requestBody", done)])), (method, path)


def test_examples_are_of_the_form_that_is_answered(http: httpx.Client) -> None:
    shown = [(one, one.model_json_schema().get("examples", [])) for one in _models()]
    for model, shapes in shown:
        for example in shapes:
            model.model_validate(example)
    assert sum(bool(examples) for _, examples in shown) >= 14
    real, example = http.get("/api/plan").json(), routes.PLAN
    assert real.keys() == example.keys()
    assert real["groups"][0].keys() == example["groups"][0].keys()


def _models() -> list[type[BaseModel]]:
    found = [value for module in (models, dashboard_models) for value in vars(module).values()]
    return [
        one for one in found if isinstance(one, type) and issubclass(one, BaseModel) and one is not BaseModel
    ]
