"""Sessions with their branches as lines."""

from collections.abc import Iterator

from hermes.admin.sessions import Node
from hermes.i18n.formats import moment
from hermes.i18n.messages import say, say_many
from hermes.util.text import inert, one_line


def branch_lines(node: Node, lead: str, below: str) -> Iterator[str]:
    """A session with its branches, each a line; `below` is what stands in front of what comes below it."""
    title = one_line(inert(node.title), 60)
    said = say_many("{n} message", "{n} messages", node.messages)
    since = say("after turn {turn}", turn=node.turns) if node.turns else ""
    yield "  ".join(part for part in (f"{lead}{node.id}", moment(node.updated_at), said, since, title) if part)
    for one in node.branches:
        last = one is node.branches[-1]
        yield from branch_lines(one, f"{below}{'└─ ' if last else '├─ '}", f"{below}{'   ' if last else '│  '}")
