"""What every request of an epoch has in common; stored, and restored byte for byte."""

from enum import StrEnum

import msgspec
from msgspec import Struct, structs

from hermes.core.messages import Message


class Sampling(Struct, frozen=True, omit_defaults=True):
    """Parameters of generation; what is None is left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    ceiling: bool = False
    """Whether `max_tokens` may not be raised for anything, not even to fit a budget of thinking; never stored."""


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


class Aside(Struct, frozen=True):
    """What every request of an epoch carries and nobody stores: more of a system prompt, and messages that come first.

    Of it the store holds a hash (`EpochFrame.aside_mark`), by which a later process can tell whether it has the same.
    """

    system: str = ""
    prefill: tuple[Message, ...] = ()

    @property
    def mark(self) -> str:
        """A hash of it; empty when there is nothing."""
        if not self.system and not self.prefill:
            return ""
        from hashlib import blake2b

        return blake2b(msgspec.json.encode(self), digest_size=16).hexdigest()


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
    aside: Aside = Aside()
    aside_mark: str = ""

    @property
    def stored(self) -> "EpochFrame":
        """The frame as it is stored."""
        if not self.aside.mark:
            return self
        return structs.replace(self, aside=Aside(), aside_mark=self.aside.mark)

    @property
    def sent(self) -> "EpochFrame":
        """The frame as requests are made of it: the whole system prompt in `system`."""
        if not self.aside.system:
            return self
        whole = "\n\n".join(part for part in (self.system, self.aside.system) if part)
        return structs.replace(self, system=whole, aside=structs.replace(self.aside, system=""))
