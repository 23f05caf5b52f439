"""The frame of an epoch: the part that all its requests share, stored and restored byte for byte."""

from enum import StrEnum

from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.messages import Message


class Sampling(Struct, frozen=True, omit_defaults=True):
    """Parameters of generation; those that are None are left to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning_tokens: int | None = None
    """The tokens that reasoning may take; where a provider takes no number, the nearest effort is sent."""
    reasoning_replay: str | None = None
    """The person's word on whether earlier reasoning is sent back; None: as the provider's record says."""
    ceiling: bool = False
    """True if `max_tokens` may not be raised, not even to fit a thinking budget; never stored."""


class Rewrite(StrEnum):
    """A change in how an epoch sends content that a provider refused in its original form; the transcript
    stays as it was.
    """

    NO_REASONING = "no_reasoning"
    """Reasoning of earlier epochs is left out: its proof is not accepted any more."""
    TEXT_RESULTS = "text_results"
    """Pictures in tool results are named in words."""
    NO_IMAGES = "no_images"
    """All pictures are named in words: the model takes none."""
    SMALL_IMAGES = "small_images"
    """Pictures are made to fit the limits of large vendors; those of which that cannot be done are named in words."""
    IMAGES_4000 = "images_4000"
    """Pictures have at most 4,000 pixels a side, and half of the bytes."""
    IMAGES_2000 = "images_2000"
    IMAGES_1000 = "images_1000"
    NO_LARGE_IMAGES = "no_large_images"
    """Pictures that are still large are named in words."""
    PLAIN_SCHEMAS = "plain_schemas"
    """Tool schemas carry no patterns or formats."""
    MERGED_ROLES = "merged_roles"
    """No two messages of one role stand side by side, no user's behind a tool's; records may ask for it from the start.
    """
    SINGLE_CALLS = "single_calls"
    """Several calls of one answer are sent one after the other, each with its result."""
    BARE_CALLS = "bare_calls"
    """Text and calls of one answer are sent as two."""
    TOLD_CALLS = "told_calls"
    """Calls and results are told in words, by assistant and user."""
    REPLAYED_REASONING = "replayed_reasoning"
    """Earlier reasoning goes back to the model that wrote it; one space stands where there is none."""
    NO_SYSTEM_ROLE = "no_system_role"
    """The system prompt begins the first user message."""
    WHOLE_ANSWERS = "whole_answers"
    """Answers are asked for whole: the server does not stream, or the person does not want it to."""


PICTURE_REWRITES = (
    Rewrite.SMALL_IMAGES,
    Rewrite.IMAGES_4000,
    Rewrite.IMAGES_2000,
    Rewrite.IMAGES_1000,
    Rewrite.NO_LARGE_IMAGES,
)
"""The steps in which pictures become smaller; an epoch has one of them at most."""


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it: `parameters` is a JSON Schema object, already encoded."""

    name: str
    description: str
    parameters: bytes


class TransientContext(Struct, frozen=True):
    """Content that every request of an epoch carries and that is never stored: an addition to the system prompt, and
    messages that come first.

    The store holds a hash of it (`EpochFrame.aside_mark`), by which a later process can tell whether it has the same.
    """

    system: str = ""
    prefill: tuple[Message, ...] = ()

    @property
    def digest(self) -> str:
        """Return a hash of it; empty when there is nothing."""
        if not self.system and not self.prefill:
            return ""
        from hashlib import blake2b

        return blake2b(to_json(self), digest_size=16).hexdigest()


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
    aside: TransientContext = TransientContext()
    aside_mark: str = ""

    @property
    def streams(self) -> bool:
        """Return whether answers are asked for as streams."""
        return Rewrite.WHOLE_ANSWERS not in self.rewrites

    @property
    def stored_frame(self) -> "EpochFrame":
        """Return the frame as it is stored."""
        if not self.aside.digest:
            return self
        return structs.replace(self, aside=TransientContext(), aside_mark=self.aside.digest)

    @property
    def request_frame(self) -> "EpochFrame":
        """Return the frame from which requests are made: the whole system prompt in `system`."""
        if not self.aside.system:
            return self
        whole = "\n\n".join(part for part in (self.system, self.aside.system) if part)
        return structs.replace(self, system=whole, aside=structs.replace(self.aside, system=""))
