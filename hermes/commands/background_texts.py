"""How a background session has ended, in words for the person who asked for it."""

from typing import Protocol

from hermes.core.events import Level
from hermes.core.sub_agents import BackgroundEnd, SubAgentState
from hermes.i18n.messages import localize, tr
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

_MAX_NAME = 60


class TextView(Protocol):
    """Shows texts to a person."""

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show plain lines unchanged."""
        ...

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        ...


def describe_background_end(end: BackgroundEnd) -> str:
    """Return the line that says how a background session has ended."""
    about = to_one_line(strip_control_characters(end.name), _MAX_NAME)
    match end.state:
        case SubAgentState.STOPPED:
            return tr("Background session {n} was stopped ({about}).", n=end.number, about=about)
        case SubAgentState.FAILED:
            why = escape_unseen_characters(localize(end.report.error))
            return tr("Background session {n} failed: {why}", n=end.number, why=why)
        case SubAgentState.DONE:
            return tr("Background session {n} is done ({about}):", n=end.number, about=about)
        case _:
            return tr("Background session {n} has ended before it was done ({about}):", n=end.number, about=about)


def describe_way_on(end: BackgroundEnd) -> str:
    """Return the line that says how a person goes on with a background session; empty where it was stopped."""
    return "" if end.state is SubAgentState.STOPPED else tr("/resume {id} goes on with it.", id=end.session_id)


def tell_background_end(view: TextView, end: BackgroundEnd) -> None:
    """Show in a terminal how a background session has ended, and its answer."""
    failed = end.state is SubAgentState.FAILED
    view.tell(describe_background_end(end), Level.WARNING if failed else Level.INFO)
    if end.state is not SubAgentState.STOPPED and end.answer:
        view.show(end.answer)
    if end.report.error and not failed and end.state is not SubAgentState.STOPPED:
        view.tell(escape_unseen_characters(localize(end.report.error)), Level.WARNING)
    if way_on := describe_way_on(end):
        view.tell(way_on)
