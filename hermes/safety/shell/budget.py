"""The budget of work for one shell text."""

import time

_STEPS, _STEPS_A_CHARACTER = 800, 0.04
"""Statements and programs that are judged in one text; what comes after them asks."""
_ANALYSIS_SECONDS, _SECONDS_A_CHARACTER = 0.008, 0.38e-6
"""CPU time that one text may take in all, parsing included: an ordinary script takes half of it."""
_STEPS_BETWEEN_CLOCKS = 32
"""Steps between two looks at the clock."""
_WORDS_A_STEP = 16
_MAX_UNROLLED_ROUNDS = 96
"""Rounds of loops that are followed one by one in a whole text."""
_MAX_LISTED_WORDS = 20_000
"""Words of all commands that are listed."""


class AnalysisBudget:
    """The work that a text may cost. What is left out when it is used up has to be approved."""

    __slots__ = ("_checked", "_listed", "_rounds", "_steps", "ends", "spent")

    def __init__(self, length: int) -> None:
        self._steps = self._checked = _STEPS + int(length * _STEPS_A_CHARACTER)
        self._rounds = _MAX_UNROLLED_ROUNDS
        self._listed = _MAX_LISTED_WORDS
        self.ends = time.thread_time() + _ANALYSIS_SECONDS + length * _SECONDS_A_CHARACTER
        self.spent = False

    def spend_step(self, words: int = 0) -> bool:
        """Spend one statement, or one program with so many words. Return whether there is enough left for it."""
        self._steps -= 1 + words // _WORDS_A_STEP
        if self._checked - self._steps > _STEPS_BETWEEN_CLOCKS:
            self._checked = self._steps
            self.spent = self.spent or time.thread_time() > self.ends
        self.spent = self.spent or self._steps < 0
        return not self.spent

    def spend_rounds(self, rounds: int) -> bool:
        """Spend rounds of a loop that are followed one by one. Return whether there are enough left."""
        if rounds > self._rounds:
            return False
        self._rounds -= rounds
        return True

    def spend_words(self, words: int) -> bool:
        """Spend words of a command that is listed. Return whether there are enough left."""
        self._listed -= words
        return self._listed >= 0
