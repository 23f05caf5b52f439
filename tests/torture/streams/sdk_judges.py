"""The official SDKs as judges of what a stream means."""

import json
import warnings
from collections.abc import Iterator, Sequence

import httpx2
from msgspec import Struct

from hermes.core.usage import Usage
from tests.torture.streams.stream_case import SaidCall, StreamCase


class Verdict(Struct):
    """What an SDK reads in a stream."""

    text: str = ""
    calls: list[tuple[str, str, str]] = []
    """Id, name and arguments of each call."""
    is_finished: bool = False
    counts: tuple[int, int] | None = None
    error: str = ""
    is_told: bool = False
    """Whether the SDK says that the vendor reported an error."""


def judge_cases(cases: Sequence[StreamCase]) -> tuple[str, list[str]]:
    """Return how many streams the SDKs read, as words, and where they differ though no reason is given, or agree though
    one is.
    """
    warnings.simplefilter("ignore", UserWarning)  # pydantic's, about every member of another type
    faults: list[str] = []
    agreed = differed = 0
    for case in cases:
        if not case.has_sdk:
            continue
        found = "; ".join(_differences(case, _read(case)))
        if found and not case.sdk:
            faults.append(f"{case.name}: the SDK differs: {found}")
        elif case.sdk and not found:
            faults.append(f"{case.name}: the SDK agrees, though {case.sdk}")
        agreed += not found
        differed += bool(found)
    return f"the SDKs agree on {agreed} and differ for a reason on {differed}", faults


def _read(case: StreamCase) -> Verdict:
    def answer(request: httpx2.Request) -> httpx2.Response:
        del request
        return httpx2.Response(200, headers={"content-type": case.content_type}, content=case.body)

    read = {"chat_completions": _read_chat, "responses": _read_responses, "anthropic_messages": _read_messages}
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        try:
            return read[case.wire](client)
        except Exception as error:  # noqa: BLE001  (an SDK may raise anything at a stream that it cannot read)
            is_told = any(kind.__name__ == "APIError" for kind in type(error).__mro__)
            return Verdict(error=f"{type(error).__name__}: {error}", is_told=is_told)


def _read_chat(client: httpx2.Client) -> Verdict:
    from openai import OpenAI
    from openai.lib.streaming.chat import ChatCompletionStreamState

    sdk = OpenAI(base_url="http://127.0.0.1:1/v1", api_key="x", http_client=client, max_retries=0)
    state = ChatCompletionStreamState()
    counts = None
    for chunk in sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True):
        state.handle_chunk(chunk)
        groq = (chunk.model_extra or {}).get("x_groq") or {}
        placed = [(choice.model_extra or {}).get("usage") for choice in chunk.choices]
        given = chunk.usage.model_dump() if chunk.usage is not None else groq.get("usage") or next(iter(placed), None)
        counts = (given["prompt_tokens"], given["completion_tokens"]) if given else counts
    [choice] = state.current_completion_snapshot.choices
    message = choice.message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return Verdict((message.content or "") + (message.refusal or ""), calls, bool(choice.finish_reason), counts)


def _read_responses(client: httpx2.Client) -> Verdict:
    from openai import OpenAI

    sdk = OpenAI(base_url="http://127.0.0.1:1/v1", api_key="x", http_client=client, max_retries=0)
    with sdk.responses.stream(model="m", input="hi") as stream:
        for event in stream:
            if event.type == "error":
                return Verdict(error=event.message, is_told=True)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                answer = event.response
    if answer.status == "failed":
        return Verdict(error=str(answer.error), is_told=True)
    calls = [(item.call_id, item.name, item.arguments) for item in answer.output if item.type == "function_call"]
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    text = "".join(part.refusal if part.type == "refusal" else part.text for part in parts)
    used = answer.usage
    return Verdict(text, calls, bool(answer.status), (used.input_tokens, used.output_tokens) if used else None)


def _read_messages(client: httpx2.Client) -> Verdict:
    from anthropic import Anthropic

    sdk = Anthropic(base_url="http://127.0.0.1:1", api_key="x", http_client=client, max_retries=0)
    with sdk.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream:
        answer = stream.get_final_message()
    calls = [(block.id, block.name, json.dumps(block.input)) for block in answer.content if block.type == "tool_use"]
    text = "".join(block.text for block in answer.content if block.type == "text")
    used = answer.usage
    prompt = used.input_tokens + (used.cache_read_input_tokens or 0) + (used.cache_creation_input_tokens or 0)
    return Verdict(text, calls, bool(answer.stop_reason), (prompt, used.output_tokens))


def _differences(case: StreamCase, read: Verdict) -> Iterator[str]:
    if case.failure is not None:
        if not read.is_told:
            yield f"it does not tell of the error: {read.error or 'it reads an answer'}"
        return
    if read.error:
        yield read.error[:160]
        return
    if read.text != case.said_text:
        yield f"text {read.text!r}, should be {case.said_text!r}"
    yield from _call_differences(case.calls, read.calls)
    if not read.is_finished:
        yield "not finished"
    said = case.said_usage
    if said is not None and read.counts != _count(said, read.counts):
        yield f"counts {read.counts}, should be {(said.input, said.output)}"


def _count(said: Usage, counts: tuple[int, int] | None) -> tuple[int, int]:
    """Return the counts that the SDK should give: it leaves out reasoning where the vendor does."""
    outside = counts is not None and counts[1] == said.output - said.reasoning
    return said.input, said.output - said.reasoning if outside else said.output


def _call_differences(said: Sequence[SaidCall], read: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if len(said) != len(read):
        yield f"calls {read}, should be {said}"
        return
    for wanted, (call_id, name, arguments) in zip(said, read, strict=True):
        try:
            given: object = arguments if isinstance(wanted.arguments, str) else json.loads(arguments or "{}")
        except (ValueError, TypeError):
            given = arguments
        if (name, given) != (wanted.name, wanted.arguments) or (wanted.call_id and call_id != wanted.call_id):
            yield f"call {(call_id, name, arguments)}, should be {wanted}"
