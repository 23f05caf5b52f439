"""What servers ask: forms and visits, over both kinds of revisions; who is asked, and what is refused."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec import Raw

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.mcp.elicitation import answer_elicitation
from hermes.mcp.input_requests import ask_listed_visits, complete_request
from hermes.mcp.results import to_tool_output
from tests.mcp.test_servers import one, spec, tool

FORM = {
    "type": "object",
    "required": ["name", "age", "sure", "colours"],
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Middle"], "default": "m"},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 2},
        "note": {"type": "string"},
    },
}


class Person:
    """Gives these answers in turn; a number is the choice at that place."""

    def __init__(self, *answers: str | int | None) -> None:
        self._answers = list(answers)
        self.questions: list[str] = []
        self.choices: list[Sequence[str]] = []

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        self.questions.append(question)
        self.choices.append(choices)
        answer = self._answers.pop(0)
        return choices[answer] if isinstance(answer, int) else answer


def form(schema: object = FORM, **fields: object) -> bytes:
    return to_json({"message": "Who are\x1b[31m you?", "requestedSchema": schema, **fields})


async def test_a_form_is_asked_field_by_field_and_shown_before_it_is_sent() -> None:
    person = Person("Ada", "200", "36", "yes", 0, 2, "a, c", "-", 0)
    answer = await answer_elicitation(person, "notes", form())
    content = {"name": "Ada", "age": 36, "sure": True, "colour": "#f00", "size": "m", "colours": ["a", "c"]}
    assert answer == {"action": "accept", "content": content}
    assert person.questions[0].startswith("The MCP server notes asks (what you answer is sent to it):")
    assert "\x1b" not in person.questions[0] and "That does not fit." in person.questions[2]
    assert person.choices[1] == [] and person.choices[4] == ["Red", "Green", "Leave it out", "Decline"]
    assert "- : Leave it out" in person.questions[-2] and "! : Decline" in person.questions[-2]
    assert json.loads(person.questions[-1].splitlines()[-1]) == content
    assert person.choices[-1] == ["Send", "Decline"]


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        ((None,), "decline"),
        (("",), "cancel"),
        (("Decline",), "decline"),
        (("!",), "decline"),
        (("-", "-", "-"), "cancel"),
        (("x", "x", "x"), "cancel"),
        (("Ada", "36", "yes", 0, 0, "a, c", "-", 1), "decline"),
        (("Ada", "36", "yes", 0, 0, "a, c", "-", None), "decline"),
    ],
)
async def test_a_person_may_say_no_at_any_time(answers: Sequence[str | int | None], action: str) -> None:
    assert await answer_elicitation(Person(*answers), "notes", form()) == {"action": action}


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        form({"type": "object", "properties": {str(number): {} for number in range(21)}}),
        form({"type": "object", "properties": {"a": {"type": "object", "properties": 5}, "b": 5}}),
        form(mode="call"),
        form(mode="url", url="javascript:alert(1)"),
        form(mode="url", url="file:///etc/passwd"),
        form(mode="url", url="https://"),
        form(mode="url", url="https://a.example/\u202e"),
        form(mode="url", url="https://evil.example\\@a.example/"),
        form(mode="url", url="https://a.example@evil.example/"),
        form(mode="url", url="https://a.example\\.evil.example/"),
        form(mode="url", url="https://[a.example/"),
    ],
)
async def test_what_cannot_be_asked_is_refused(params: bytes) -> None:
    assert await answer_elicitation(Person(), "notes", params) == {"action": "decline"}


async def test_nobody_there_means_no() -> None:
    assert await answer_elicitation(None, "notes", form()) == {"action": "decline"}


async def test_a_visit_names_the_host_and_is_left_to_the_person() -> None:
    visit = to_json({"mode": "url", "message": "Key, please", "url": "https://a.example/key?x=1"})
    person = Person(0)
    assert await answer_elicitation(person, "notes", visit) == {"action": "accept"}
    assert "a.example" in person.questions[0] and "https://a.example/key?x=1" in person.questions[0]
    assert await ask_listed_visits(Person(0), "notes", b'{"elicitations": [' + visit + b"]}")
    assert not await ask_listed_visits(Person(1), "notes", b'{"elicitations": [' + visit + b"]}")
    assert not await ask_listed_visits(Person(), "notes", b'{"elicitations": []}')


async def test_the_answers_go_with_the_request_that_is_sent_again() -> None:
    asked = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {"type": "object"}}}
    results = [
        {"resultType": "input_required", "requestState": " opaque\u00fc"},
        {"resultType": "input_required", "inputRequests": {"k": asked}, "requestState": "second"},
        {"resultType": "input_required", "inputRequests": {"k": asked}},
        {"content": []},
    ]
    sent: list[Mapping[str, object]] = []

    async def send(beside: Mapping[str, object]) -> Raw:
        sent.append(beside)
        return Raw(to_json(results[len(sent) - 1]))

    await complete_request(send, Person(0, 1), "notes", is_stateless=True)
    assert sent == [
        {},
        {"requestState": " opaque\u00fc"},
        {"inputResponses": {"k": {"action": "accept", "content": {}}}, "requestState": "second"},
        {"inputResponses": {"k": {"action": "decline"}}},
    ]


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"resultType": "input_required", "inputRequests": {"k": {"method": "sampling/createMessage"}}}, "sampling"),
        ({"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}}, "roots/list"),
        ({"resultType": "input_required"}, "of a kind that is not known"),
        ({"resultType": "task"}, "of a kind that is not known"),
        (
            {"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create"}}},
            "asks again and again",
        ),
    ],
)
async def test_a_server_that_asks_for_more_ends_its_call(result: Mapping[str, object], problem: str) -> None:
    async def send(_: Mapping[str, object]) -> Raw:
        return Raw(to_json(result))

    with pytest.raises(ToolError, match=problem):
        await complete_request(send, None, "notes", is_stateless=True)
    assert await complete_request(send, None, "notes", is_stateless=False)  # a word of no meaning there


@pytest.mark.slow
async def test_a_server_with_sessions_asks_the_person_of_the_call(tmp_path: Path) -> None:
    fields = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}

    async with one(spec(timeout=0.4), tmp_path) as server:

        class Slow(Person):
            async def ask(self, question: str, choices: Sequence[str]) -> str | None:
                await asyncio.sleep(0.3)  # both questions take longer than a call may: the time stands still
                return await super().ask(question, choices)

        def read(result: Raw) -> object:
            return json.loads(to_tool_output(result, "t").text)["result"]

        person = Slow("Ada", 0)
        answered = read(await server.call_tool(tool(server, "form"), fields, person))
        assert answered == {"action": "accept", "content": {"name": "Ada"}} and len(person.questions) == 2
        assert read(await server.call_tool(tool(server, "form"), fields)) == {"action": "decline"}
        other = Person()
        waiting = asyncio.create_task(server.call_tool(tool(server, "slow"), {}, other))
        await asyncio.sleep(0)
        both = read(await server.call_tool(tool(server, "form"), fields, Person()))
        assert both == {"action": "decline"} and other.questions == []  # whose question it is cannot be told
        waiting.cancel()
        await asyncio.wait({waiting})


@pytest.mark.slow
async def test_a_server_that_asks_without_an_end_is_answered_no(tmp_path: Path) -> None:
    agreement = {"message": "Sure?", "requestedSchema": {"type": "object"}}
    async with one(spec(), tmp_path) as server:
        for _ in range(2):
            person = Person(*[0] * 30)
            result = await server.call_tool(tool(server, "forms"), agreement, person)
            actions = json.loads(to_tool_output(result, "t").text)
            assert sorted(actions) == ["accept"] * len(person.questions) + ["decline"] * (30 - len(person.questions))
            assert 0 < len(person.questions) <= 20
