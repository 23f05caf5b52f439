"""Google's Gemini over its OpenAI-compatible address."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-20", source="https://ai.google.dev/gemini-api/docs/pricing")
"""Text, pictures and video, not sound; cached tokens as uncached ones, which is the most that they can cost. Gemini 3.8
Flash at its price from 2027 on; it is half of that until then."""

RECORD = ProviderRecord(
    name="gemini",
    title="Google Gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    base_url_variable="GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    quirks=Quirks(native_prefix="google/"),
    context_lengths={"gemini-2.5-*": 1_048_576},
    prices={
        "gemini-3.8-flash": _price(input=1.5, output=7.5),
        "gemini-3.5-flash": _price(input=1.5, output=9.0),
        "gemini-3.1-pro-preview": _price(input=2.0, output=12.0, beyond=200_000, long=_price(input=4.0, output=18.0)),
    },
    notes="Thought signatures come and go in `extra_content` of a tool call (ai.google.dev, Thought signatures, OpenAI "
    "compatibility). Window: ai.google.dev, Gemini models, input token limit.",
)
