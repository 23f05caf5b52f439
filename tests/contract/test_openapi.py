"""The OpenAPI document of the API server: it is the recorded one, it names every route, and it is valid."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from hermes import __version__
from hermes.client.objects import EVENT_SCHEMA_VERSION, RUN_EVENTS, RunEventBody
from hermes.core.encoding import to_json
from hermes.gateway.platforms.api_server import runs
from hermes.gateway.platforms.api_server.adapter import ApiServerPlatform
from hermes.gateway.platforms.api_server.openapi import OPERATIONS, build_openapi, format_openapi
from hermes.testing.script import Call, Say
from tests.gateway.platforms.api_server_rig import api

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads(to_json(build_openapi(__version__)))
SCHEMAS = DOCUMENT["components"]["schemas"]
METHODS = {"get", "post", "patch", "delete"}


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "$ref":
                yield one
            elif key == "mapping":
                yield from one.values()
            else:
                yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def validator_of(name: str) -> Draft202012Validator:
    resource = Resource.from_contents({"$schema": "https://json-schema.org/draft/2020-12/schema", **DOCUMENT})
    registry = Registry().with_resource("urn:openapi", resource)
    return Draft202012Validator({"$ref": f"urn:openapi#/components/schemas/{name}"}, registry=registry)


def test_the_recorded_document_is_that_of_the_code() -> None:
    recorded = (ROOT / "docs" / "openapi.json").read_bytes()
    assert recorded == format_openapi(__version__), "run: python scripts/openapi.py --write"


def test_it_is_a_valid_document() -> None:
    assert set(DOCUMENT) == {"openapi", "info", "security", "paths", "components"}
    ids = []
    for path, operations in DOCUMENT["paths"].items():
        assert path.startswith("/") and set(operations) <= METHODS
        for operation in operations.values():
            ids.append(operation["operationId"])
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}
            assert all(status.isdigit() for status in operation["responses"])
    assert len(set(ids)) == len(ids)
    for reference in references(DOCUMENT):
        found = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert DOCUMENT["info"]["x-event-schema"] == EVENT_SCHEMA_VERSION


def test_every_kind_of_event_is_in_it() -> None:
    kinds = {f"run.{kind.__struct_config__.tag}" for kind in runs._LOGGED_EVENTS.__args__}
    assert kinds | {"run.text_delta", "run.gap", "run.resumed", "run.ended"} == set(RUN_EVENTS)
    assert set(SCHEMAS["RunEvent"]["discriminator"]["mapping"]) == set(RUN_EVENTS)
    event = RunEventBody("run.text_delta", "r", {"text": "a"})
    validator_of("RunEvent").validate(msgspec.to_builtins(event))
    assert not validator_of("RunEvent").is_valid({"type": "run.text_delta", "run_id": "r", "data": {}, "version": 1})


@pytest.mark.slow
async def test_it_names_exactly_the_routes_of_the_server() -> None:
    async with api([]) as it:
        platform = it.gateway.accounts["api_server"].platform
        assert isinstance(platform, ApiServerPlatform)
        routes = platform.application.router.routes()
        served = {(one.method, one.resource.canonical) for one in routes if one.resource and one.method != "HEAD"}
    assert served == {(one.method, one.path) for one in OPERATIONS}


@pytest.mark.slow
async def test_what_the_server_sends_is_what_it_says() -> None:
    call = Call("terminal", {"command": "rm -rf ../../work/build"})
    async with api([Say(calls=(call,)), Say("done"), Say("more")]) as it:
        _, run = await it.ask("POST", "/v1/runs", {"input": "clean", "session_id": "s"})
        validator_of("Run").validate(run)
        async with await it.stream("GET", f"/v1/runs/{run['id']}/events") as events:
            assert events.answer.headers["X-Hermes-Event-Schema"] == str(EVENT_SCHEMA_VERSION)
            told = await events.until("run.approval_asked")
            _, waiting = await it.ask("GET", f"/v1/runs/{run['id']}")
            validator_of("Run").validate(waiting)
            question = waiting["approvals"][0]["approval_id"]  # type: ignore[index]
            given = {"approval_id": question, "decision": "once"}
            validator_of("ApprovalReceipt").validate((await it.ask("POST", f"/v1/runs/{run['id']}/approval", given))[1])
            told += await events.rest()
        bodies = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
        assert {"run.tool_ended", "run.approval_answered", "run.ended"} <= {one["type"] for one in bodies}
        for body in bodies:
            validator_of("RunEvent").validate(body)
        validator_of("SessionPage").validate((await it.ask("GET", "/v1/sessions"))[1])
        validator_of("MessagePage").validate((await it.ask("GET", "/v1/sessions/s/messages"))[1])
        validator_of("ErrorResponse").validate((await it.ask("GET", "/v1/runs/nobody"))[1])
        job = {"name": "daily", "schedule": "0 9 * * *", "zone": "UTC", "prompt": "Tell me."}
        validator_of("JobRequest").validate(job)
        validator_of("JobObject").validate((await it.ask("POST", "/api/jobs", job))[1])
        async with await it.stream("POST", "/v1/sessions/s/chat/stream", {"input": "and now?"}) as answer:
            streamed = await answer.rest()
        assert "event: turn_ended" in streamed
        for line in streamed.splitlines():
            if line.startswith("data: "):
                validator_of("SessionEventData").validate(json.loads(line[6:]))


@pytest.mark.slow
async def test_lists_and_the_catalogue_have_the_fields_that_it_names_and_no_others() -> None:
    async with api([]) as it:
        job = {"name": "daily", "schedule": "0 9 * * *", "zone": "UTC", "prompt": "Tell me."}
        await it.ask("POST", "/api/jobs", job)
        await it.ask("POST", "/api/jobs/daily/run")
        for path, name in (
            ("/api/jobs", "JobPage"),
            ("/api/jobs/daily/history", "JobHistory"),
            ("/v1/models", "ModelPage"),
            ("/v1/models/hermes", "ModelObject"),
            ("/v1/capabilities", "KeyCapabilities"),
            ("/v1/skills", "SkillPage"),
            ("/v1/toolsets", "ToolsetPage"),
            ("/health", "Health"),
        ):
            _, told = await it.ask("GET", path)
            validator_of(name).validate(told)
            assert set(told) == set(SCHEMAS[name]["properties"]), path
            if "data" in told:
                row = SCHEMAS[name]["properties"]["data"]["items"]["$ref"].rpartition("/")[2]
                assert told["data"], path
                assert all(set(one) == set(SCHEMAS[row]["properties"]) for one in told["data"]), path
        for method, path, name in (
            ("POST", "/api/jobs/daily/stop", "StoppedJob"),
            ("POST", "/api/jobs/daily/pause", "JobObject"),
            ("DELETE", "/api/jobs/daily", "DeletedJob"),
        ):
            validator_of(name).validate((await it.ask(method, path))[1])


async def test_a_gap_has_the_form_of_an_event() -> None:
    log = runs.RunEventLog("r")
    for _ in range(runs.MAX_EVENTS + 3):
        log.add_event("run.text_delta", {"text": "a"})
    log.close()
    first = await anext(log.follow_events("", 1.0))
    assert first == b'event: run.gap\ndata: {"type":"run.gap","run_id":"r","data":{"missed":3},"version":1}\n\n'
