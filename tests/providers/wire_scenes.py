"""Endpoints, frames and messages that several tests use."""

import json

from hermes.core.frame import EpochFrame, Sampling, ToolSchema
from hermes.core.messages import (
    FinishReason,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    program_message,
    user_message,
)
from hermes.core.stream import Answer, StreamDelta
from hermes.providers.records import load_record
from hermes.providers.wire import Endpoint, ServerEvent, load_wire

WIRES = {"chat_completions": "custom", "responses": "openai", "anthropic_messages": "anthropic"}
PARAMETERS = b'{"type":"object","properties":{"path":{"type":"string"}}}'
TOOLS = (ToolSchema(name="read_file", description="Read a file.", parameters=PARAMETERS),)


def endpoint(provider: str, *, model: str = "m", wire_name: str = "") -> Endpoint:
    found = load_record(provider)
    return Endpoint(record=found, model=model, base_url=found.base_url, api_key="k" * 12, wire=wire_name or found.wire)


def frame(to: Endpoint, **sampling: object) -> EpochFrame:
    return EpochFrame(
        provider=to.record.name,
        model=to.model,
        wire=to.wire,
        encoder_version=1,
        system="Be brief.",
        tools=TOOLS,
        sampling=Sampling(**sampling),
    )


def elements(to: Endpoint, *messages: Message) -> list[dict[str, object]]:
    encoded = [load_wire(to.wire).encode_message(message, to) for message in messages]
    return json.loads(b"[" + b",".join(encoded) + b"]")


def body(to: Endpoint, *messages: Message, final: bool = False, **sampling: object) -> dict[str, object]:
    joined = b",".join(load_wire(to.wire).encode_message(message, to) for message in messages)
    return json.loads(load_wire(to.wire).encode_body(frame(to, **sampling), joined, to, final=final))


def decode(to: Endpoint, *events: object) -> tuple[list[StreamDelta], Answer]:
    decoder = load_wire(to.wire).create_decoder(to)
    deltas = []
    for event in events:
        name, data = event if isinstance(event, tuple) else ("", event)
        text = data if isinstance(data, str) else json.dumps(data)
        deltas += decoder.feed(ServerEvent(event=name, data=text))
    return deltas, decoder.build_answer()


def origin(of: Endpoint) -> Origin:
    return Origin(provider=of.record.name, model=of.model, wire=of.wire)


def called(of: Endpoint, arguments: str = '{"path": "a"}', *more: object, call_id: str = "call_1") -> Message:
    call = ToolCallPart(call_id=call_id, name="read_file", arguments=arguments)
    return Message(role=Role.ASSISTANT, parts=(*more, call), finish=FinishReason.TOOL_CALLS, origin=origin(of))


PICTURE = ImagePart(media_type="image/png", data="aGk=")


def transcript(of: Endpoint) -> list[Message]:
    """Every kind of message once, odd ones too."""
    thought = ReasoningPart(text="Hm.", kind="thinking", signature="sig", opaque='[{"type":"x"}]')
    return [
        user_message("Look.", PICTURE),
        called(of, '{"path": "a"}', thought, TextPart(text="I look.")),
        Message(
            role=Role.TOOL,
            parts=(
                ToolResultPart(call_id="call_1", name="read_file", text="42"),
                ToolResultPart(call_id="call_2", name="shot", text="", status=ToolStatus.ERROR, images=(PICTURE,)),
                TextPart(text="And hurry."),
            ),
        ),
        called(of, '{"path": "b', call_id="functions.read:0"),
        Message(role=Role.TOOL, parts=(ToolResultPart(call_id="functions.read:0", name="read_file", text="x"),)),
        Message(role=Role.ASSISTANT, parts=()),
        program_message(Role.ASSISTANT, "stopped \ud83d here"),
        user_message("下一个"),
    ]
