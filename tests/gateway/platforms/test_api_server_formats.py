"""Answers in the form that a caller demands, judged by the official client."""

import itertools
import json
from collections.abc import Callable

import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.shared_params import ResponseFormatJSONSchema
from pydantic import BaseModel

from hermes.core.errors import UsageError
from hermes.sessions.answer_schema import AnswerSchema
from hermes.testing.script import Call, Say
from tests.gateway.platforms.api_server_rig import api

pytestmark = pytest.mark.slow
ASKED: ChatCompletionMessageParam = {"role": "user", "content": "Largest city of Norway?"}
CITY = '{"city":"Oslo","people":700000}'
FORM: ResponseFormatJSONSchema = {
    "type": "json_schema",
    "json_schema": {
        "name": "city",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
            "required": ["city", "people"],
            "additionalProperties": False,
        },
    },
}


class City(BaseModel):
    city: str
    people: int


async def test_an_answer_has_the_form_and_no_fence() -> None:
    async with api([Say(f"```json\n{CITY}\n```")]) as it, it.openai() as client:
        done = await client.chat.completions.parse(model="hermes", messages=[ASKED], response_format=City)
        assert done.choices[0].message.parsed == City(city="Oslo", people=700_000)
        assert done.choices[0].message.content == CITY
        assert "additionalProperties" in str(it.model.requests[0].messages[-1]["content"])


async def test_a_wrong_answer_is_asked_for_again_in_the_same_session() -> None:
    async with api([Say("It is Oslo."), Say('{"city":"Oslo"}'), Say(CITY)]) as it, it.openai() as client:
        done = await client.chat.completions.create(model="hermes", messages=[ASKED], response_format=FORM)
        assert done.choices[0].message.content == CITY
        assert len(it.gateway.pool) == 1
        sent = [request.messages for request in it.model.requests]
        assert sent[2][: len(sent[1])] == sent[1]
        assert "required" in str(sent[2][-1]["content"])
        assert done.usage is not None
        assert done.usage.completion_tokens > 10


async def test_an_answer_that_never_has_the_form_is_an_error_by_name() -> None:
    async with api([Say("no"), Say("no"), Say("no")]) as it:
        body = {"model": "hermes", "messages": [ASKED], "response_format": FORM}
        status, said = await it.ask("POST", "/v1/chat/completions", body)
        assert (status, said["error"]["code"]) == (422, "invalid_answer")  # type: ignore[index]
        assert len(it.model.requests) == 3


async def test_a_stream_joins_to_valid_json() -> None:
    async with api([Say("It is Oslo."), Say(CITY)]) as it, it.openai() as client:
        stream = await client.chat.completions.create(
            model="hermes", messages=[ASKED], response_format=FORM, stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert json.loads(text) == {"city": "Oslo", "people": 700_000}


async def test_a_stream_that_never_has_the_form_ends_with_an_error() -> None:
    async with api([Say("no")] * 3) as it:
        body = {"model": "hermes", "messages": [ASKED], "response_format": {"type": "json_object"}, "stream": True}
        async with await it.stream("POST", "/v1/chat/completions", body) as reading:
            told = await reading.until("[DONE]")
        assert "invalid_answer" in told
        assert '"content":"no"' not in told


async def test_a_client_that_sends_all_each_time_goes_on_in_the_session() -> None:
    async with api([Say(CITY), Say(CITY)]) as it, it.openai() as client:
        await client.chat.completions.create(model="hermes", messages=[ASKED], response_format=FORM)
        more: list[ChatCompletionMessageParam] = [ASKED, {"role": "assistant", "content": CITY}, ASKED]
        await client.chat.completions.create(model="hermes", messages=more, response_format=FORM)
        assert len(it.gateway.pool) == 1


async def test_calls_of_the_caller_come_before_the_form() -> None:
    async with api([Say("Let me look.", calls=(Call("look", {}, "call_1"),)), Say(CITY)]) as it, it.openai() as client:
        tools = [{"type": "function", "function": {"name": "look"}}]
        first = await client.chat.completions.create(
            model="hermes",
            messages=[ASKED],
            tools=tools,  # type: ignore[arg-type]
            response_format=FORM,
        )
        assert first.choices[0].finish_reason == "tool_calls"


async def test_responses_have_the_form() -> None:
    async with api([Say("Oslo"), Say(CITY), Say(CITY)]) as it, it.openai() as client:
        done = await client.responses.parse(model="hermes", input="Largest city of Norway?", text_format=City)
        assert done.output_parsed == City(city="Oslo", people=700_000)
        async with client.responses.stream(model="hermes", input="Again?", text_format=City) as stream:
            async for _ in stream:
                pass
            again = await stream.get_final_response()
        assert again.output_parsed == City(city="Oslo", people=700_000)


def test_a_foreign_schema_cannot_hold_the_process_up() -> None:
    names = [f"d{number}" for number in range(40)]
    doubled: dict[str, object] = {
        name: {"allOf": [{"$ref": f"#/$defs/{below}"}, {"$ref": f"#/$defs/{below}"}]}
        for name, below in itertools.pairwise(names)
    }
    doubled[names[-1]] = {"type": "string"}
    deep = AnswerSchema.parse_foreign({"$ref": "#/$defs/d0", "$defs": doubled})
    assert deep.parse_answer('"x"')[1]
    slow = AnswerSchema.parse_foreign({"type": "string", "pattern": "^(a+)+$"})
    assert slow.parse_answer(json.dumps("a" * 40 + "!")) == ("a" * 40 + "!", "")
    named = AnswerSchema.parse_foreign({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": True})
    assert named.parse_answer(json.dumps({"a" * 40 + "!": 1}))[1] == ""
    own = AnswerSchema.parse_foreign({"properties": {"pattern": {"type": "string"}}, "enum": [{"pattern": "x"}]})
    assert own.parse_answer('{"pattern": "x"}')[1] == ""
    assert own.parse_answer('{"pattern": 1}')[1]


HOLDERS: list[tuple[dict[str, object], object]] = [
    ({"uniqueItems": True}, [{"a": number} for number in range(30_000)]),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "enum": [{"a": n} for n in range(2_500)]}, {"a": 1}),
    ({"unevaluatedProperties": False, "$defs": {"a": {"$dynamicRef": "#b"}}}, {"x": 1}),
    ({"format": "regex", "type": "string"}, "("),
    ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x": 1}),
    ({"$schema": 5, "$id": ["no"], "$anchor": {}}, 1),
]
"""Demands that cost more than they say: they are told and not checked."""


@pytest.mark.parametrize(("schema", "value"), HOLDERS)
def test_what_cannot_be_checked_in_time_is_only_told(schema: dict[str, object], value: object) -> None:
    assert AnswerSchema.parse_foreign(schema).parse_answer(json.dumps(value))[1] == ""


@pytest.mark.parametrize(
    ("schema", "make_answer"),
    [
        ({"multipleOf": 1e-300}, lambda: "1" + "0" * 400),
        ({"multipleOf": 3}, lambda: "1e999"),
        ({"items": {"const": [list(range(5_000))]}}, lambda: json.dumps([[[*range(4_999), 0]]] * 2_000)),
        ({"items": {"anyOf": [{"type": "string"}] * 900}}, lambda: json.dumps([[["x" * 9]] * 9_000] * 9)),
    ],
)
def test_an_answer_that_costs_too_much_is_wrong(schema: dict[str, object], make_answer: Callable[[], str]) -> None:
    assert AnswerSchema.parse_foreign(schema).parse_answer(make_answer())[1]


@pytest.mark.parametrize("place", ["enum/0", "default", "x-more", "required", "properties", "title"])
def test_a_reference_leads_to_a_schema_only(place: str) -> None:
    """What lies in a value was never cut down: a pattern in it would be looked for."""
    schema = {
        "$ref": f"#/{place}",
        "enum": [{"pattern": "^(a+)+$"}],
        "default": {"pattern": "^(a+)+$"},
        "x-more": {"pattern": "^(a+)+$"},
        "properties": {"type": {"type": "string"}},
        "required": ["a"],
        "title": "x",
    }
    with pytest.raises(UsageError, match="not in it"):
        AnswerSchema.parse_foreign(schema)


def test_references_within_a_schema_are_followed() -> None:
    schema: dict[str, object] = {
        "properties": {"a/b": {"items": {"type": "string"}}, "c": {"$ref": "#/properties/a~1b/items"}},
        "anyOf": [{"$ref": "#/$defs/all"}, {"required": ["c"]}],
        "$defs": {"all": {"required": ["a/b"]}},
    }
    checked = AnswerSchema.parse_foreign(schema)
    assert checked.parse_answer('{"c":"x"}')[1] == ""
    assert checked.parse_answer('{"c":1}')[1]
    assert checked.parse_answer("{}")[1]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 7},
        {"type": [{"a": 1}]},
        {"required": [1]},
        {"minLength": -1},
        {"multipleOf": 0},
        {"items": [{}]},
        {"allOf": {}},
        {"$ref": 5},
        {"$ref": "http://127.0.0.1:9/x"},
        {"x": "y" * 40_000},
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_by_name(schema: object) -> None:
    async with api([Say("1"), Say("1"), Say("1")]) as it:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body = {"model": "hermes", "messages": [ASKED], "response_format": form}
        status, said = await it.ask("POST", "/v1/chat/completions", body)
        assert (status, said["error"]["type"]) == (400, "invalid_request_error")  # type: ignore[index]
