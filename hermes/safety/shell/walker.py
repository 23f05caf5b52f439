"""Who walks through a shell text, as the parts of the walk see it."""

from typing import Protocol

from tree_sitter import Node

from hermes.safety.shell.call import Host
from hermes.safety.shell.expand import Expander
from hermes.safety.shell.findings import Simple
from hermes.safety.shell.words import State, Stream


class Walker(Host, Protocol):
    """Who walks through a shell text, as the handlers of its statements see it."""

    expander: Expander
    commands: list[Simple]
    aside: int
    """How many statements around this one run beside others: in a pipe, or in the background."""
    behind: int
    """How many statements were started in the background so far."""
    uncalled: dict[str, tuple[Node, State]]
    """Functions that are defined and not called yet."""

    def met(self, argv: tuple[str, ...], state: State) -> None:
        """Note a simple command."""

    def unclear(self, reason: str = "") -> None:
        """Note that something could not be followed."""

    def visit(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        """Judge a statement; what it writes to its output."""
        ...

    def statements(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        """Judge the statements in a node, one after the other; what they write."""
        ...

    def substitute(self, node: Node, state: State) -> Stream:
        """The output of the commands in a substitution."""
        ...
