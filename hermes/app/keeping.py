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
    """What everything that is kept stands on. `window` is the tokens of the model's window, where they are known."""

    home: Home
    settings: Settings
    store: Store
    redactor: Redactor
    environ: dict[str, str]
    window: int | None


class Kept(Struct, frozen=True, kw_only=True):
    """What something that is kept adds to a session."""

    tools: tuple[Tool, ...] = ()
    sections: tuple[PromptSection, ...] = ()


def kept_for(plan: Plan, shelf: Shelf) -> Kept:
    """Everything that the session of `plan` has."""
    from hermes.app.prompting import own_sections

    owners = [make(plan, shelf) for make in OWNERS]
    own = own_sections(shelf.home, shelf.settings, shelf.environ, plan.cwd, shelf.window)
    return Kept(
        tools=tuple(tool for one in owners for tool in one.tools),
        sections=(*own, *(section for one in owners for section in one.sections)),
    )


def _past(_plan: Plan, shelf: Shelf) -> Kept:
    """The search over all that was ever said."""
    from hermes.memory.session_search import session_search_tool

    return Kept(tools=(session_search_tool(shelf.store),))


OWNERS: Sequence[Callable[[Plan, Shelf], Kept]] = (_past,)
"""Who adds something, in the order in which it stands in the prompt."""
