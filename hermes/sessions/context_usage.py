"""What fills a model's window, part by part, and its picture. For `/context`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.messages import Message, Role, ToolResultPart
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from hermes.sessions.epoch_frame import PromptPartSize

SYSTEM = N_("system prompt")
TOOLS = N_("tools")
MEMORY = N_("memory")
SKILLS = N_("skills")
YOURS = N_("your messages")
ANSWERS = N_("answers")
RESULTS = N_("tool results")
NOTES = N_("notes of Hermes")
FREE = N_("free")
KINDS = (SYSTEM, TOOLS, MEMORY, SKILLS, YOURS, ANSWERS, RESULTS, NOTES)
_MEMORY = ("memory", "user")


class TokenShare(Struct, frozen=True):
    """One kind of content in a request, with its estimated tokens."""

    kind: str
    tokens: int


def estimate_shares(
    sizes: Sequence["PromptPartSize"], messages: Sequence[Message], *, counted: int | None = None
) -> list[TokenShare]:
    """Estimate the contents of the next request by kind, in the order of `KINDS`; empty kinds are left out.

    Four bytes count as a token. When the provider has `counted` the tokens of the last prompt, all are scaled to that.
    """
    found = dict.fromkeys(KINDS, 0)
    for size in sizes:
        found[_classify_part(size.part)] += size.bytes
    for message in messages:
        kind = _classify_message(message)
        for part in message.parts:
            found[RESULTS if isinstance(part, ToolResultPart) else kind] += len(to_json(part))
    tokens = {kind: -(-amount // 4) for kind, amount in found.items() if amount}
    total = sum(tokens.values())
    scale = counted / total if counted and total else 1.0
    return [TokenShare(kind, max(round(amount * scale), 1)) for kind, amount in tokens.items()]


def _classify_part(part: str) -> str:
    """Return the kind of a part of the frame, by the name that `hermes prompt-size` gives it."""
    where, _, name = part.partition(": ")
    if where == "tool":
        return TOOLS
    if where == "prompt" and name.lower().startswith(_MEMORY):
        return MEMORY
    return SKILLS if name == "skills" else SYSTEM


def _classify_message(message: Message) -> str:
    if message.synthetic:
        return NOTES
    return {Role.USER: YOURS, Role.ASSISTANT: ANSWERS, Role.TOOL: RESULTS}[message.role]
