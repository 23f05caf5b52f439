"""What the command line says of the server."""

from msgspec import Struct


class McpServeOptions(Struct, frozen=True, kw_only=True):
    """What the command line says of the server."""

    asks: bool = False
    """Whether the client may ask the agent something."""
    max_cost: float = 0.5
    """Dollars that all of its questions together may cost."""
    max_steps: int = 30
    """The most model calls of one question."""
    person_token: str = ""
    """What a person shows to answer approvals; empty: nobody answers them."""
