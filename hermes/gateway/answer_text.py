"""What is said in chats: an answer of a turn's end, cut into what the platform takes."""

from msgspec import Struct, structs

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.platform import Capabilities
from hermes.gateway.text.links import harmless
from hermes.gateway.text.media import Rules, Sendable, take
from hermes.gateway.text.split import split
from hermes.i18n.messages import say, translated
from hermes.sessions.egress_filter import Leaving

SILENT = "[SILENT]"
"""What a model answers when nothing is to be said (X-60)."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a turn's end comes to in a chat. `outcome` is its name in the journal."""

    text: str
    outcome: str
    files: tuple[Sendable, ...] = ()


def answer_of(ended: TurnEnded) -> Answer:
    """The answer of a turn. One that did not come to its end says so, behind what there is."""
    text = ended.text.strip()
    if ended.reason.completed:
        return Answer(text="" if text == SILENT else text, outcome=ended.reason.value)
    if ended.reason is ExitReason.INTERRUPTED:
        line = say("(Stopped.)")
    else:
        why = translated(ended.error) if ended.error else ended.reason.value.replace("_", " ")
        line = say("(This did not come to its end: {why})", why=why)
    return Answer(text=f"{text}\n\n{line}" if text else line, outcome=ended.reason.value)


def let_out(answer: Answer, leaving: Leaving, can: Capabilities) -> Answer:
    """The answer as it may leave the machine: its files found, and, while strangers' words stand in the conversation,
    nothing in it that a platform would fetch from a host that nobody has named."""
    text, files = answer.text, answer.files
    if can.media:
        limit = can.media_limit
        taken = take(text, Rules(roots=leaving.roots, refused=leaving.refused, home=leaving.home, limit=limit))
        text, files = taken.text, taken.files
    if leaving.tainted:
        text = harmless(text, leaving.allowed)
    return structs.replace(answer, text=text, files=files)


def pieces(text: str, can: Capabilities) -> list[str]:
    """A text as messages that the platform takes; none for a text of nothing."""
    if not text.strip():
        return []
    return split(text, can.limit, can.measure)
