"""The interface of the walk through a shell text, as its parts see it."""

from typing import Protocol

from tree_sitter import Node

from hermes.safety.shell.expand import SubstitutionHost, WordExpander
from hermes.safety.shell.findings import SimpleCommand
from hermes.safety.shell.words import AnalysisState, ShellStream


class ShellWalker(SubstitutionHost, Protocol):
    """The walk through a shell text, as the handlers of its statements see it."""

    expander: WordExpander
    commands: list[SimpleCommand]
    concurrent_depth: int
    """The number of statements around this one that run concurrently: in a pipe, or in the background."""
    background_count: int
    """The number of statements that were started in the background so far."""
    uncalled_functions: dict[str, tuple[Node, AnalysisState]]
    """Functions that are defined and not called yet."""

    def add_command(self, argv: tuple[str, ...], state: AnalysisState) -> None:
        """Add a simple command to the list of commands."""

    def add_unclear(self, reason: str = "") -> None:
        """Add a finding that something could not be followed."""

    def visit(self, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a statement. Return its output."""
        ...

    def visit_statements(self, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge the statements in a node, one after the other. Return their output."""
        ...
