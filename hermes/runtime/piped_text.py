"""What is piped into a command, as a part of the message that it goes along with."""

import re

from msgspec import structs

from hermes.core.messages import Provenance, Source, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import clean_surrogates

_PIPED = Provenance(Source.FILE, label="standard input", vouched=True)
"""The person's own choice, so it is trusted as a pasted text is; but not the person's words: no `@` in it is a
reference, and hosts in it are not named by the person.
"""
_BACKTICKS = re.compile("`{3,}")


def attach_piped_text(inbound: InboundMessage, piped: str) -> InboundMessage:
    """Return the message with the text behind it, between fences that the text cannot close."""
    if not piped.strip():
        return inbound
    fence = "`" * max(3, *(len(one) + 1 for one in _BACKTICKS.findall(piped)), 0)
    text = clean_surrogates(piped)
    end = "" if text.endswith("\n") else "\n"
    count = text.count("\n") + len(end)
    part = TextPart(f"[Standard input, {count} lines]\n{fence}\n{text}{end}{fence}", _PIPED)
    return structs.replace(inbound, quoted=(*inbound.quoted, part))
