"""What may go out with an answer that other people's programs show: files, and addresses that are fetched unasked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.safety.path_judge import judge_path
from hermes.tools.weighing import known_host

if TYPE_CHECKING:
    from hermes.app.birth import Live
    from hermes.app.premises import Premises


class Leaving(Struct, frozen=True):
    """What one session may let out by its answers."""

    roots: tuple[str, ...]
    """Folders in which files lie that may be sent: the workspace, and what was received and made here."""
    refused: Callable[[str], str]
    """Why a file may not be sent, in English; empty when it may."""
    home: str
    tainted: bool
    """Whether strangers' words stand in the conversation: then an address or a file may carry out what was read."""
    allowed: Callable[[str], bool]
    """Whether a host may be reached all the same."""


def leaving(premises: "Premises", live: "Live") -> Leaving:
    """What this session may let out now."""
    context = live.tools.context
    places, hosts = context.places, premises.settings.security.allowed_hosts

    def refused(path: str) -> str:
        return judge_path(path, "read", places.workspace, places).reason

    return Leaving(
        roots=(places.workspace, str(premises.home.root / "media"), *places.own),
        refused=refused,
        home=places.home,
        tainted=bool(context.state.taint.sources()),
        allowed=lambda host: known_host(host, context, hosts),
    )
