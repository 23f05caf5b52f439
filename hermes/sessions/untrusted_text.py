"""Mark text that comes along with a person's message and was not written by them."""

from hermes.core.messages import Provenance, Source, TextPart
from hermes.safety.fencing import fence_untrusted_text
from hermes.util.text import clean_surrogates
from hermes.web.pages import text_from_html


def untrusted_part(text: str, label: str) -> TextPart:
    """Return text of others, fenced and marked with its source; `label` names the platform and the person."""
    provenance = Provenance(Source.OTHER, label)
    return TextPart(text=fence_untrusted_text(clean_surrogates(text), provenance), provenance=provenance)


def program_note(text: str) -> TextPart:
    """Return a fact that Hermes adds to a message, marked as its own."""
    return TextPart(text=text, provenance=Provenance(Source.PROGRAM))


async def html_to_markdown(html: str) -> str:
    """Convert HTML to markdown in a process of its own; to bare text where that is not possible."""
    return (await text_from_html(html, "")).text.strip()
