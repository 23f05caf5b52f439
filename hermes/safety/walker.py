"""What the parts of a walk through a shell text share: who walks, and how much work a text may cost."""

import time
from typing import Protocol

from tree_sitter import Node

from hermes.safety.call import Host
from hermes.safety.expand import Expander
from hermes.safety.findings import Simple
from hermes.safety.words import State, Stream

_STEPS, _STEPS_A_CHARACTER = 800, 0.04
"""Statements and programs that are looked at in one text; what comes after them asks."""
_SECONDS, _SECONDS_A_CHARACTER = 0.010, 0.5e-6
"""CPU time that one text may take in all, parsing included: an ordinary script takes half of it."""
_BETWEEN = 32
"""Steps between two looks at the clock."""
_WORDS_A_STEP = 16
_UNROLLED = 96
"""Rounds of loops that are followed one by one in a whole text."""
_LISTED = 20_000
"""Words of all commands that are listed."""


class Budget:
    """How much work a text may cost. What is left out when it is used up has to be asked about."""

    __slots__ = ("_checked", "_listed", "_rounds", "_steps", "ends", "spent")

    def __init__(self, length: int) -> None:
        self._steps = self._checked = _STEPS + int(length * _STEPS_A_CHARACTER)
        self._rounds = _UNROLLED
        self._listed = _LISTED
        self.ends = time.thread_time() + _SECONDS + length * _SECONDS_A_CHARACTER
        self.spent = False

    def step(self, words: int = 0) -> bool:
        """One more statement, or program with so many words; whether there is enough left for it."""
        self._steps -= 1 + words // _WORDS_A_STEP
        if self._checked - self._steps > _BETWEEN:
            self._checked = self._steps
            self.spent = self.spent or time.thread_time() > self.ends
        self.spent = self.spent or self._steps < 0
        return not self.spent

    def unrolls(self, rounds: int) -> bool:
        """Whether so many rounds of a loop may be followed one by one."""
        if rounds > self._rounds:
            return False
        self._rounds -= rounds
        return True

    def lists(self, words: int) -> bool:
        """Whether a command of so many words may be listed."""
        self._listed -= words
        return self._listed >= 0


class Walker(Host, Protocol):
    """Who walks through a shell text, as the handlers of its statements see it."""

    expander: Expander
    budget: Budget
    commands: list[Simple]
    aside: int
    """How many statements around this one run beside others: in a pipe, or in the background."""
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
