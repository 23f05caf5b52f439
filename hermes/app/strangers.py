"""Words that come along with a person's message and are not theirs."""

from hermes.core.parts import Provenance, Source, TextPart
from hermes.safety.fencing import fence
from hermes.util.text import clean_surrogates


def others_words(text: str, label: str) -> TextPart:
    """Somebody else's words, fenced and marked with where they come from; `label` names the platform and the person."""
    provenance = Provenance(Source.OTHER, label)
    return TextPart(text=fence(clean_surrogates(text), provenance), provenance=provenance)


def program_note(text: str) -> TextPart:
    """A fact that Hermes adds to a message, in its own name."""
    return TextPart(text=text, provenance=Provenance(Source.PROGRAM))
