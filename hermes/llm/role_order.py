"""Arranges messages for servers that demand an order of roles, or that do not know every role.

Chat templates and validators refuse what most vendors take: two messages of one role side by side, a user's message
behind a tool's, an empty answer, a request that ends in an answer. How a message is arranged depends on it, on the
epoch's rewrites and on what the buffer ends with, so a restored epoch sends the same bytes.
"""

import hashlib
from collections.abc import Iterator, Sequence

from msgspec import structs

from hermes.core.frame import Rewrite
from hermes.core.messages import (
    PROGRAM,
    ImagePart,
    Message,
    Part,
    Role,
    Source,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    program_message,
)
from hermes.util.text import to_one_line

ROLE_REWRITES = frozenset(
    {Rewrite.MERGED_ROLES, Rewrite.SINGLE_CALLS, Rewrite.BARE_CALLS, Rewrite.TOLD_CALLS, Rewrite.NO_SYSTEM_ROLE}
)
"""The rewrites for which messages are arranged; each of them has the order of roles that `MERGED_ROLES` has."""

ANSWER_BRIDGE = program_message(Role.ASSISTANT, "(Noted.)")
"""Stands where a user's message would follow another one, or tool results."""
USER_BRIDGE = program_message(Role.USER, "[System: go on.]")
"""Stands where an answer would follow another one, begin the conversation, or end a request."""
_NO_OUTPUT = "(no output)"


class RoleArranger:
    """Arranges the messages of one lineage in the order in which they join it."""

    def __init__(self, rewrites: Sequence[Rewrite], system: str) -> None:
        self._told_calls = Rewrite.TOLD_CALLS in rewrites
        self._single_calls = Rewrite.SINGLE_CALLS in rewrites
        self._bare_calls = Rewrite.BARE_CALLS in rewrites
        self._system = system if Rewrite.NO_SYSTEM_ROLE in rewrites else ""
        self._last: Role | None = None
        self._open: Message | None = None
        """An answer of several calls that waits for their results, to be sent call by call."""

    @property
    def ending(self) -> Message | None:
        """Return what a request needs behind its last message: a user's message, if that is an answer."""
        return USER_BRIDGE if self._last is Role.ASSISTANT else None

    def arrange_message(self, message: Message) -> Iterator[Message]:
        """Yield the messages that are sent for this one, none of them behind a role that it may not follow."""
        if self._open is not None and message.role is not Role.TOOL:
            waiting, self._open = self._open, None
            yield from self._place(waiting)
        if message.role is Role.ASSISTANT:
            yield from self._arrange_answer(message)
        elif message.role is Role.TOOL and self._told_calls:
            yield from self._place(_tell_results(message))
        elif message.role is Role.TOOL:
            yield from self._arrange_results(message)
        else:
            yield from self._place(message)

    def _place(self, message: Message) -> Iterator[Message]:
        """Yield the message, behind a bridge where its role cannot follow the last one."""
        user = message.role is Role.USER
        if user and self._last in (Role.USER, Role.TOOL):
            yield ANSWER_BRIDGE
        elif message.role is Role.ASSISTANT and self._last in (Role.ASSISTANT, None):
            yield self._with_system(USER_BRIDGE)
        self._last = message.role
        yield self._with_system(message) if user else message

    def _with_system(self, message: Message) -> Message:
        """Return the first user's message of a conversation with the system prompt in it, where that has no role."""
        if not self._system:
            return message
        system, self._system = TextPart(text=self._system, provenance=PROGRAM), ""
        return structs.replace(message, parts=(system, *message.parts))

    def _arrange_answer(self, message: Message) -> Iterator[Message]:
        """Yield an answer; one without text and calls says nothing, and is left out."""
        calls = tuple(message.tool_calls())
        text = any(isinstance(part, TextPart) and part.text.strip() for part in message.parts)
        if not calls and not text:
            return
        if calls and self._told_calls:
            yield from self._place(_tell_calls(message))
            return
        if calls and text and self._bare_calls:
            yield from self._place(_without(message, ToolCallPart))
            message = _without(message, TextPart)
        if len(calls) > 1 and self._single_calls:
            self._open = message
            return
        yield from self._place(message)

    def _arrange_results(self, message: Message) -> Iterator[Message]:
        """Yield results with what joins them: Hermes' own words stand in the last one, a person's and pictures behind.

        A tool's message can hold no picture in every API format, and a person's words keep the person's role.
        """
        results = [structs.replace(one, images=(), text=one.text or _NO_OUTPUT) for one in message.tool_results()]
        joined = [part for part in message.parts if isinstance(part, TextPart) and part.text]
        behind: list[Part] = list(_label_images(message))
        if any(_is_persons(part) for part in joined):
            behind += joined
        elif joined and results:
            text = "\n\n".join([results[-1].text, *(part.text for part in joined)])
            results[-1] = structs.replace(results[-1], text=text)
        yield from self._place_results(message, results)
        if behind:
            yield from self._place(Message(role=Role.USER, parts=tuple(behind), synthetic=message.synthetic))

    def _place_results(self, message: Message, results: Sequence[ToolResultPart]) -> Iterator[Message]:
        if self._open is None:
            yield from self._place(structs.replace(message, parts=tuple(results)))
            return
        answer, self._open = self._open, None
        rest = tuple(part for part in answer.parts if not isinstance(part, ToolCallPart))
        for call in answer.tool_calls():
            yield from self._place(structs.replace(answer, parts=(*rest, call)))
            own = tuple(result for result in results if result.call_id == call.call_id)
            yield from self._place(structs.replace(message, parts=own))
            rest = ()


def create_arranger(rewrites: Sequence[Rewrite], system: str) -> RoleArranger | None:
    """Return what arranges the messages of an epoch; None where it demands no order."""
    return None if ROLE_REWRITES.isdisjoint(rewrites) else RoleArranger(rewrites, system)


def _is_persons(part: TextPart) -> bool:
    return part.provenance is None or part.provenance.source is Source.PERSON


def _without(message: Message, kind: type[TextPart] | type[ToolCallPart]) -> Message:
    return structs.replace(message, parts=tuple(part for part in message.parts if not isinstance(part, kind)))


def _label_images(message: Message) -> Iterator[Part]:
    """Yield the pictures of results, each behind a line that says whose it is."""
    for result in message.tool_results():
        for image in result.images:
            said = f"[picture from the result of {to_one_line(result.name, 80)}]"
            yield TextPart(text=said, provenance=PROGRAM)
            yield image
    yield from (part for part in message.parts if isinstance(part, ImagePart))


def _tell_calls(message: Message) -> Message:
    """Return an answer with its calls told in words."""
    lines = [f"[I call {call.name} with {call.arguments.strip() or '{}'}]" for call in message.tool_calls()]
    told = TextPart(text="\n".join(lines), provenance=PROGRAM)
    return structs.replace(_without(message, ToolCallPart), parts=(*_without(message, ToolCallPart).parts, told))


def _tell_results(message: Message) -> Message:
    """Return a batch of results as a user's message: each told in words, then what joins them.

    Around each stands a mark that its text cannot hold, since it is made of the text: nothing in a file or on a page
    passes for the end of the result and the person's words behind it.
    """
    told: list[Part] = []
    for result in message.tool_results():
        how = "" if result.status is ToolStatus.OK else f" ({result.status.value})"
        said = result.text or _NO_OUTPUT
        mark = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        text = f"[Result {mark} of {to_one_line(result.name, 80)}{how}]\n{said}\n[End of result {mark}]"
        told += [TextPart(text=text, provenance=PROGRAM), *result.images]
    told += [part for part in message.parts if not isinstance(part, ToolResultPart)]
    return structs.replace(message, role=Role.USER, parts=tuple(told))
