"""How much work a shell text may cost."""

import time

_STEPS, _STEPS_A_CHARACTER = 800, 0.04
"""Statements and programs that are looked at in one text; what comes after them asks."""
_SECONDS, _SECONDS_A_CHARACTER = 0.008, 0.38e-6
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
