"""Answers that a caller wants as JSON of a given form: what it asks for, and asking the model again until it has it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from msgspec import structs

from hermes.core.errors import UsageError
from hermes.core.events import Event, TurnEnded
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.session_lookup import ApiSession
from hermes.gateway.platforms.api_server.turns import ApiTurn, TurnStream
from hermes.sessions.answer_schema import MAX_REPAIRS, AnswerSchema, build_repair_message, extract_json


async def parse_answer_format(given: object, param: str) -> AnswerSchema | None:
    """Return the form that a request asks for; None for text. Raises ApiRequestError for what is no JSON Schema."""
    kind = given.get("type", "text") if isinstance(given, Mapping) else "text"
    if not isinstance(given, Mapping) or kind == "text":
        return None
    schema: object = {"type": "object"}
    if kind == "json_schema":
        inner = given.get("json_schema")  # Responses have everything on one level
        schema = (inner if isinstance(inner, Mapping) else given).get("schema")
    elif kind != "json_object":
        raise ApiRequestError(400, "The format must be text, json_object or json_schema.", param=param)
    if not isinstance(schema, Mapping):
        raise ApiRequestError(400, "The format needs a `schema`, which is an object.", param=param)
    try:
        return await asyncio.to_thread(AnswerSchema.parse_foreign, schema)
    except UsageError as error:
        raise ApiRequestError(400, str(error), param=param) from None


class FormattedTurnStream(TurnStream):
    """A turn whose answer must have a form: its text goes out once it is right, and a wrong one is asked for again, in
    turns of its own.
    """

    def __init__(self, deps: ApiDeps, session: ApiSession, turn: ApiTurn, schema: AnswerSchema) -> None:
        super().__init__(turn)
        self._deps = deps
        self._session = session
        self._schema = schema
        self._usage = Usage()

    async def wait_answer(self) -> tuple[TurnEnded, str]:
        """Wait for the end and return it with the answer. Raises ApiRequestError where it never has the form."""
        async for _ in self.iter_pieces(pause=60.0):
            pass
        assert self.ended is not None
        return self.ended, self.text

    async def iter_pieces(self, pause: float) -> AsyncGenerator[str | Event | None, None]:
        """Yield events and pauses, and at last the answer. Raises ApiRequestError where it never has the form."""
        for repairs in range(MAX_REPAIRS + 1):
            async for event in self.turn.iter_events(pause):
                if not isinstance(event, TextDelta | ReasoningDelta):
                    yield event
            ended = await self.turn.wait_result()
            self._usage += ended.usage
            self.ended = structs.replace(ended, usage=self._usage)
            answer, problem = await self._check_answer(ended)
            if not problem:
                if text := self._text_filter.filter_whole(answer):
                    yield text
                return
            if repairs < MAX_REPAIRS:
                await self._ask_again(problem)
        said = f"The model's answer does not have the form that was asked for: {problem}."
        raise ApiRequestError(422, said, code="invalid_answer", headers={"x-should-retry": "false"})

    async def _check_answer(self, ended: TurnEnded) -> tuple[str, str]:
        """Return the answer as it goes out, and what is wrong with it; a turn without an answer goes out as it is."""
        if self.turn.open_calls or not ended.reason.is_completed:
            return ended.text, ""
        _, problem = await asyncio.to_thread(self._schema.parse_answer, ended.text)
        return extract_json(ended.text), problem

    async def _ask_again(self, problem: str) -> None:
        cwd = self._deps.sessions.working_folder(self._session.caller.person)
        session = structs.replace(self._session, request=structs.replace(self._session.request, create=False))
        self.turn = await self._deps.post_message(session, build_repair_message(problem, cwd=cwd))
        self._text_filter = self.turn.make_text_filter()
