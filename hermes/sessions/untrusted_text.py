"""Words that come along with a person's message and are not theirs."""

from hermes.core.parts import Provenance, Source, TextPart
from hermes.safety.fencing import fence
from hermes.util.text import clean_surrogates
from hermes.web.pages import from_html


def others_words(text: str, label: str) -> TextPart:
    """Somebody else's words, fenced and marked with where they come from; `label` names the platform and the person."""
    provenance = Provenance(Source.OTHER, label)
    return TextPart(text=fence(clean_surrogates(text), provenance), provenance=provenance)


def program_note(text: str) -> TextPart:
    """A fact that Hermes adds to a message, in its own name."""
    return TextPart(text=text, provenance=Provenance(Source.PROGRAM))


async def words_of_html(html: str) -> str:
    """HTML as markdown, made in a process of its own; as bare text where that is not possible."""
    return (await from_html(html, "")).text.strip()
