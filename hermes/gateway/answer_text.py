"""The text of answers in chats, split into messages that the platform accepts."""

from msgspec import Struct, structs

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.gateway.platform import Capabilities
from hermes.gateway.text.links import defuse_links
from hermes.gateway.text.media import MediaRules, SendableFile, extract_media
from hermes.gateway.text.split import split_markdown
from hermes.i18n.messages import say, translated
from hermes.sessions.egress_filter import EgressFilter

SILENT = "[SILENT]"
"""The answer of a model that has nothing to say."""


class ChatAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a turn as it goes to a chat. `outcome` is its name in the journal."""

    text: str
    outcome: str
    files: tuple[SendableFile, ...] = ()


def build_answer(ended: TurnEnded) -> ChatAnswer:
    """Build the answer of a turn. One that did not complete says so, after its text."""
    text = ended.text.strip()
    if ended.reason.completed:
        return ChatAnswer(text="" if text == SILENT else text, outcome=ended.reason.value)
    if ended.reason is ExitReason.INTERRUPTED:
        line = say("(Stopped.)")
    else:
        why = translated(ended.error) if ended.error else ended.reason.value.replace("_", " ")
        line = say("(This did not come to its end: {why})", why=why)
    return ChatAnswer(text=f"{text}\n\n{line}" if text else line, outcome=ended.reason.value)


def filter_answer(answer: ChatAnswer, egress_filter: EgressFilter, can: Capabilities) -> ChatAnswer:
    """Return the answer as it may leave the machine: with its files extracted and, while untrusted content stands in
    the conversation, without anything that a platform would fetch from a host that is not allowed.
    """
    text, files = answer.text, answer.files
    if can.media:
        limit = can.media_limit
        taken = extract_media(
            text,
            MediaRules(
                roots=egress_filter.roots,
                refusal_reason=egress_filter.find_refusal,
                home=egress_filter.home,
                limit=limit,
            ),
        )
        text, files = taken.text, taken.files
    if egress_filter.tainted:
        text = defuse_links(text, egress_filter.is_host_allowed)
    return structs.replace(answer, text=text, files=files)


def split_text(text: str, can: Capabilities) -> list[str]:
    """Split a text into messages that the platform accepts; none for an empty text."""
    if not text.strip():
        return []
    return split_markdown(text, can.limit, can.measure)
