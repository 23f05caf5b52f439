"""What lists say of models beyond the catalogue: windows and prices, from models.dev or from a provider itself.

Source: models.dev (`api.json`: dollars a million tokens), OpenRouter's GET /models (dollars a token, as text), Together
AI's (dollars a million). What is not understood, or could be no window and no price, counts as not said.
"""

import math
from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from hermes.core.errors import ConfigError
from hermes.core.usage import Price
from hermes.i18n.messages import N_
from hermes.providers.wire import ProviderRecord

FORM = 1
"""The form of the file; one of a later version is not read."""
MODELS_DEV = "https://models.dev/api.json"
MODELS_DEV_NAMES = {
    "alibaba": "qwen",
    "amazon-bedrock": "bedrock",
    "anthropic": "anthropic",
    "azure": "azure",
    "deepseek": "deepseek",
    "fireworks-ai": "fireworks",
    "google": "gemini",
    "google-vertex": "vertex",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "kimi",
    "openai": "openai",
    "openrouter": "openrouter",
    "togetherai": "together",
    "xai": "xai",
    "zai": "glm",
}
"""The names of models.dev for the providers of the catalogue."""
_WINDOW_KEYS = (
    "context_length",
    "loaded_context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "n_ctx",
)
_MAX_WINDOW = 1_000_000_000
_MAX_PRICE = 100_000.0
_MAX_NAME = 200
_LONG_PROMPT = 200_000
"""Prompt tokens beyond which models.dev's `context_over_200k` counts."""
_MILLION = 1_000_000


class ModelFacts(Struct, frozen=True, omit_defaults=True):
    """A model's window in tokens, its price, and whether it takes pictures, as far as a list says them."""

    context_length: int | None = None
    price: Price | None = None
    pictures: bool | None = None


class ModelFile(Struct, frozen=True, kw_only=True):
    """What a person took over from a list, by provider and model: only what differs from the catalogue."""

    form: int = FORM
    source: str
    as_of: str
    """The day on which it was read, as YYYY-MM-DD."""
    providers: Mapping[str, Mapping[str, ModelFacts]] = {}

    def refresh_record(self, record: ProviderRecord) -> ProviderRecord:
        """Return the record with what was taken over in the place of its own."""
        facts = self.providers.get(record.name)
        if not facts:
            return record
        windows = {name: one.context_length for name, one in facts.items() if one.context_length is not None}
        prices = {name: one.price for name, one in facts.items() if one.price is not None}
        pictures = {name: one.pictures for name, one in facts.items() if one.pictures is not None}
        return structs.replace(
            record,
            context_lengths={**record.context_lengths, **windows},
            prices={**record.prices, **prices},
            pictures={**record.pictures, **pictures},
        )


def parse_model_file(raw: bytes, place: str) -> ModelFile:
    """Parse the home's file. Raises ConfigError for one that is damaged or of a later version."""
    try:
        found = msgspec.json.decode(raw, type=ModelFile)
    except (msgspec.MsgspecError, RecursionError):
        found = None
    if found is None or found.form != FORM:
        raise ConfigError(
            N_("{file} cannot be used: it is damaged, or of a later version.", file=place),
            "`hermes model refresh` writes it again; without the file the built-in windows and prices hold.",
        )
    return found


def read_window(row: object) -> int | None:
    """Return the first window that an object of a list names."""
    if not isinstance(row, Mapping):
        return None
    return next((found for key in _WINDOW_KEYS if (found := _read_tokens(row.get(key))) is not None), None)


def read_own_row(row: object) -> tuple[str, ModelFacts] | None:
    """Return the name and the facts of a row of a provider's own list; None for what is no row."""
    name = (row.get("id") or row.get("name")) if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping) or not is_model_name(name):
        return None
    assert isinstance(name, str)
    window = read_window(row) or read_window(row.get("meta"))
    return name, ModelFacts(window, _read_own_price(row.get("pricing")), _read_inputs(row.get("architecture")))


def read_dev_row(row: object) -> ModelFacts:
    """Return the facts of a model of models.dev."""
    limit = row.get("limit") if isinstance(row, Mapping) else None
    cost = row.get("cost") if isinstance(row, Mapping) else None
    modalities = row.get("modalities") if isinstance(row, Mapping) else None
    window = _read_tokens(limit.get("context")) if isinstance(limit, Mapping) else None
    return ModelFacts(window, _read_dev_price(cost), _read_inputs(modalities))


def _read_inputs(about: object) -> bool | None:
    """Return whether pictures are among what a model takes: models.dev lists it under `input`, OpenRouter under
    `input_modalities`; None where neither says anything.
    """
    if not isinstance(about, Mapping):
        return None
    listed = about.get("input") or about.get("input_modalities")
    return "image" in listed if isinstance(listed, list) and listed else None


def is_model_name(name: object) -> bool:
    """Return whether a value can be the name of a model."""
    return isinstance(name, str) and 0 < len(name) <= _MAX_NAME and name.isprintable() and name == name.strip()


def _read_tokens(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 < value <= _MAX_WINDOW else None  # type: ignore[operator,return-value]


def _read_amount(value: object, factor: float = 1.0) -> float | None:
    """Return dollars a million tokens; None for what is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value) * factor
    except (ValueError, OverflowError):
        return None
    return round(amount, 6) if math.isfinite(amount) and 0 <= amount <= _MAX_PRICE else None


def _read_dev_price(cost: object) -> Price | None:
    price = _build_price(cost, ("input", "output", "cache_read", "cache_write"), 1.0)
    if price is None or not isinstance(cost, Mapping):
        return None
    longer = _build_price(cost.get("context_over_200k"), ("input", "output", "cache_read", "cache_write"), 1.0)
    return structs.replace(price, beyond=_LONG_PROMPT, long=longer) if longer is not None else price


def _read_own_price(pricing: object) -> Price | None:
    return _build_price(
        pricing, ("prompt", "completion", "input_cache_read", "input_cache_write"), _MILLION
    ) or _build_price(pricing, ("input", "output", "cached_input", "cache_write"), 1.0)


def _build_price(value: object, names: tuple[str, str, str, str], factor: float) -> Price | None:
    """Return a price, if the amounts for prompts and for answers are both there."""
    if not isinstance(value, Mapping):
        return None
    amounts = [_read_amount(value.get(name), factor) for name in names]
    if amounts[0] is None or amounts[1] is None:
        return None
    return Price(input=amounts[0], output=amounts[1], cache_read=amounts[2], cache_write=amounts[3])
