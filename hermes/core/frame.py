"""What every request of an epoch has in common; stored, and restored byte for byte."""

from msgspec import Struct


class Sampling(Struct, frozen=True, omit_defaults=True):
    """Parameters of generation; what is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    ceiling: bool = False
    """Whether `max_tokens` may not be raised for anything, not even to fit a budget of thinking; never stored."""


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it: `parameters` is a JSON Schema object, already encoded."""

    name: str
    description: str
    parameters: bytes


class EpochFrame(Struct, frozen=True, kw_only=True):
    """The fixed part of an epoch's requests. A lineage is (provider, model, wire, epoch).

    `encoder_version` is the version of the wire's encoder that wrote this epoch's requests; a newer program goes on
    with the same version or begins a new epoch.
    """

    provider: str
    model: str
    wire: str
    encoder_version: int
    system: str
    tools: tuple[ToolSchema, ...] = ()
    sampling: Sampling = Sampling()
