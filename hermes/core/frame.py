"""What every request of an epoch has in common; stored, and restored byte for byte."""

from enum import StrEnum

from msgspec import Struct


class Sampling(Struct, frozen=True, omit_defaults=True):
    """Parameters of generation; what is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None


class Rewrite(StrEnum):
    """How an epoch sends what a provider has refused in its original form; the transcript itself stays as it was."""

    NO_REASONING = "no_reasoning"
    """Reasoning of earlier epochs is left out: its proof is not accepted any more."""
    TEXT_RESULTS = "text_results"
    """Pictures in tool results are named in words."""
    SMALL_IMAGES = "small_images"
    """Pictures are made smaller, or named in words where that cannot be done."""
    PLAIN_SCHEMAS = "plain_schemas"
    """Tool schemas carry no patterns or formats."""


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it: `parameters` is a JSON Schema object, already encoded."""

    name: str
    description: str
    parameters: bytes


class EpochFrame(Struct, frozen=True, kw_only=True):
    """The fixed part of an epoch's requests. A lineage is (provider, model, wire, epoch).

    `encoder_version` is the version of the wire's encoder that wrote this epoch's requests; a newer program goes on
    with the same version or begins a new epoch. `rewrites` change what is sent, not what is stored.
    """

    provider: str
    model: str
    wire: str
    encoder_version: int
    system: str
    tools: tuple[ToolSchema, ...] = ()
    sampling: Sampling = Sampling()
    rewrites: tuple[Rewrite, ...] = ()
