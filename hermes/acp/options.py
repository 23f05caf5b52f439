"""What the command line says of the sessions that an editor opens."""

from msgspec import Struct


class AcpOptions(Struct, frozen=True, kw_only=True):
    """What the command line says of the sessions that editors open."""

    toolsets: str | None = None
    """Names of tool sets, joined by commas; None: those of the settings."""
    mode: str = "ask"
    """The mode in which sessions begin."""
    asks: bool = True
    """Whether the editor's person is asked; else what would need a question is refused."""
    allow: tuple[str, ...] = ()
    """Commands that need no question."""
    remembers: bool = True
    """Whether sessions have memory."""
    model: str = ""
    provider: str = ""
