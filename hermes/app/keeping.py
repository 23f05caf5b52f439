"""What a session has of all that outlives sessions: the tools and prompt sections of memory, skills and the store."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes.app.toolbox import Plan
from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.context.prompt import PromptSection
from hermes.safety.secrets import Redactor
from hermes.store.store import Store
from hermes.tools.tool import Tool


class Shelf(Struct, frozen=True, kw_only=True):
    """What everything that is kept stands on."""

    home: Home
    settings: Settings
    store: Store
    redactor: Redactor


class Kept(Struct, frozen=True, kw_only=True):
    """What something that is kept adds to a session."""

    tools: tuple[Tool, ...] = ()
    sections: tuple[PromptSection, ...] = ()


def kept_for(plan: Plan, shelf: Shelf) -> Kept:
    """Everything that the session of `plan` has."""
    owners = [make(plan, shelf) for make in OWNERS]
    return Kept(
        tools=tuple(tool for one in owners for tool in one.tools),
        sections=tuple(section for one in owners for section in one.sections),
    )


OWNERS: Sequence[Callable[[Plan, Shelf], Kept]] = ()
"""Who adds something, in the order in which it stands in the prompt."""
