"""Format sessions with their branches as lines."""

from collections.abc import Iterator

from hermes.admin.sessions import SessionNode
from hermes.i18n.formats import moment
from hermes.i18n.messages import say, say_many
from hermes.util.text import inert, one_line


def format_branches(node: SessionNode, lead: str, below: str) -> Iterator[str]:
    """Yield a line for a session and for each of its branches; `below` is the prefix of the lines below it."""
    title = one_line(inert(node.title), 60)
    said = say_many("{n} message", "{n} messages", node.messages)
    since = say("after turn {turn}", turn=node.turns) if node.turns else ""
    yield "  ".join(part for part in (f"{lead}{node.id}", moment(node.updated_at), said, since, title) if part)
    for one in node.branches:
        last = one is node.branches[-1]
        yield from format_branches(one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")
