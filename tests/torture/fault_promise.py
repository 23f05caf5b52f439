"""What is promised of a turn whose model calls meet faults, as a machine.

It was written from `docs/errors.md` and the feature rows it cites (ML, ER, RC, TC, TD, ES, FZ) and calls nothing of the
product. `Meaning` is what a request met, as far as a turn is concerned.
"""

from collections import Counter
from dataclasses import dataclass

from hermes.core.outcomes import ExitReason as Exit

IN_A_ROW = 5
"""The most faults in a row."""
OBEYED = 2
"""New tries after which a wish of less than five seconds is no longer waited for to the letter."""


@dataclass(frozen=True)
class Refused:
    """No answer, and no text of one was shown (rows ER, RC-09 to RC-12)."""

    retryable: bool
    wish: float | None = None
    rotates: bool = False
    """Whether another key may be answered (rows RC-02)."""
    malformed: bool = False
    """Whether the server says that the request is wrong."""


@dataclass(frozen=True)
class Unstreamed:
    """The server does not give streams (row AM-09)."""


@dataclass(frozen=True)
class TooLarge:
    """The request is too large, and a picture in it can be left out (row RC-03)."""


@dataclass(frozen=True)
class Repeated:
    """An answer that was to go on and only says again what was said."""


@dataclass(frozen=True)
class Broken:
    """Text was shown, then the stream broke (rows TC-04, ES-01)."""

    text: str
    retryable: bool = True
    malformed: bool = False


@dataclass(frozen=True)
class Said:
    """A whole answer; `cut` at its length limit (row TC-01)."""

    text: str
    cut: bool = False


@dataclass(frozen=True)
class Called:
    """A batch of calls. `tokens` are the effects it has, `valid` whether any call of it can be run (rows TD-01, 02)."""

    text: str
    tokens: tuple[str, ...] = ()
    valid: bool = True
    house: bool = False


@dataclass(frozen=True)
class CallCut:
    """A call that the length limit cut (row TC-05)."""


@dataclass(frozen=True)
class OnlyThought:
    """All tokens went into thinking (row TC-02)."""


@dataclass(frozen=True)
class Empty:
    """Nothing was said (rows ES-02 to ES-07)."""

    thought: bool = False


@dataclass(frozen=True)
class Resent:
    """A kept connection was closed before the request was read: sent again, no failure of the call."""


@dataclass(frozen=True)
class Stopped:
    """The person stops the turn while this answer is awaited; `text` of it was shown (row ML-07)."""

    text: str = ""


Meaning = (
    Refused
    | Broken
    | Said
    | Called
    | CallCut
    | OnlyThought
    | Empty
    | Resent
    | Stopped
    | Unstreamed
    | TooLarge
    | Repeated
)
WHOLE = Said | Called | CallCut | OnlyThought | Empty | Repeated
"""What a whole answer can mean."""


@dataclass(frozen=True)
class Setup:
    """How a script is played: the keys of the first server, whether answers are streamed, whether there are tools, and
    whether the first message has a picture. `plain` scripts have five faults at most and no limit of their own.
    """

    plain: bool = False
    keys: int = 1
    streams: bool = True
    tools: bool = True
    picture: bool = False


@dataclass(frozen=True)
class Limits:
    """The settings of new tries: the most calls (None: as time allows), the minutes (None: five), who waits."""

    tries: int | None = None
    minutes: float | None = None
    unattended: bool = False

    @property
    def seconds(self) -> float:
        """The time for new tries."""
        usual = 30.0 if self.unattended else 5.0
        return 60.0 * (usual if self.minutes is None else self.minutes)

    def allow(self, tried: int, wish: float | None, *, brief: bool, waited: float = 0.0) -> bool:
        """Whether there is another try after so many, for which so long was waited as servers wished; `brief`: where
        another model can answer.
        """
        most = IN_A_ROW + 1 if self.tries is None else self.tries
        most, seconds = (min(most, 2), min(self.seconds, 15.0)) if brief else (most, self.seconds)
        return tried + 1 < most and seconds > 0 and waited + (wish or 0.0) <= seconds


NO_ANSWER = "(The limit of steps for one turn was reached before an answer was written.)"


NO_ANSWER = "(The limit of steps for one turn was reached before an answer was written.)"


class Promise:
    """What the documents promise, as a machine: fed with what each request meets, it says when and how a turn ends."""

    def __init__(self, wires: tuple[str, ...], limits: Limits, setup: Setup, max_turns: int) -> None:
        self.wires, self.limits, self.setup, self.max_turns = wires, limits, setup, max_turns
        self.stand_ins = len(wires) - 1
        self.place = 0
        self._enter_epoch()
        self.epochs = 0
        self.waited: list[float] = []
        self.pauses = 0
        """How often a call was tried again after a pause."""
        self.begin()

    def begin(self) -> None:
        """A turn begins, with the first model again (row RC-12)."""
        if self.place > 0:
            self.epochs += 1
            self._enter_epoch()
        self.place = 0
        self.ready = self.setup.keys
        """The keys of the first server that nothing speaks against."""
        self.passing: tuple[int, float | None] | None = None
        """The first model that failed in this turn for a reason that passes, with its wish."""
        self.spent = False
        """Whether every model was tried in this turn."""
        self.waits = False
        """Whether the key of the model that is called next waits for its limit to end."""
        self.used: Counter[str] = Counter()
        self.pieces: list[str] = []
        self.reason: Exit | None = None
        self.left = self.max_turns
        self.final = False
        self.toolless = False
        self.after_tools = False
        self.prior = ""
        self.invalid = 0
        self.calls = 0
        self._call()

    @property
    def text(self) -> str:
        """The final answer."""
        return "".join(self.pieces)

    def _enter_epoch(self) -> None:
        """What one server has taught is not known of another."""
        self.streams, self.pictured = self.setup.streams, self.setup.picture

    def _call(self) -> None:
        """Another model call: a step of the budget; the last is made without tools (rows ML-01, ML-05)."""
        self.tried, self.waiting = 0, 0.0
        self.calls += 1
        if self.final:
            return
        if self.left == 0:
            self.final = True
            self._appended()
        else:
            self.left -= 1

    def _appended(self, *, tools: bool = False, prior: str = "") -> None:
        self.after_tools, self.prior = tools, prior

    def _allowed(self, row: str, times: int) -> bool:
        self.used[row] += 1
        return self.used[row] <= times

    def meet(self, met: Meaning) -> None:
        """A request met this."""
        if isinstance(met, WHOLE) and self.place == 0:
            self.ready = max(self.ready, 1)
        same_call = False
        match met:
            case Resent():
                return
            case Refused():
                same_call = self._refused(met)
            case Unstreamed():
                same_call = self._unstreamed()
            case TooLarge():
                self.epochs += 1
                self.pictured = False
            case Broken():
                self._broken(met)
            case Stopped():
                self.reason = Exit.INTERRUPTED
            case _:
                self._answered(met)
        if self.reason is None and not same_call:
            self._call()
            # A key that waits counts as a failed try, without a request.
            self.tried, self.waits = int(self.waits), False

    def _answered(self, met: WHOLE) -> None:
        """A whole answer came."""
        match met:
            case Said():
                self._said(met)
            case Called():
                self._called(met)
            case Empty():
                self._empty(met)
            case CallCut():
                # Up to three times the model is told to split its work; a call means that what was said before is
                # not the answer.
                if self._allowed("split", 3):
                    self.pieces.clear()
                    self._appended()
                else:
                    self.reason = Exit.TRUNCATED
            case OnlyThought():
                self.reason = Exit.THINKING_EXHAUSTED
            case Repeated():
                self.reason = Exit.TEXT_RESPONSE

    def _unstreamed(self) -> bool:
        """Asked once more for a whole answer, in a new epoch; else like any refusal. Whether it is the same call."""
        allowed = self._allowed("whole", 1)
        if not (self.streams and allowed):
            return self._refused(Refused(False))
        self.epochs += 1
        self.streams = False
        return False

    def _next_model(self, met: Refused) -> bool:
        """The next one; after the last, if it cannot be helped, the first that failed only for now."""
        if self.spent:
            return False
        if met.retryable and self.passing is None:
            self.passing = (self.place, met.wish)
        self.tried, self.waiting = 0, 0.0
        if self.place < self.stand_ins:
            self.place += 1
            self.epochs += 1
            self._enter_epoch()
            return True
        self.spent = True
        if met.retryable or self.passing is None or self.passing[0] == self.place:
            return False
        self.place, wish = self.passing
        self.epochs += 1
        self._enter_epoch()
        if wish is None:
            return True
        if not self.limits.allow(0, wish, brief=False):
            self.calls += 1
            self.reason = Exit.RETRIES_EXHAUSTED
        self.waits = True
        return self.limits.allow(0, wish, brief=False)

    def _refused(self, met: Refused) -> bool:
        """Another key at once; else tried again with pauses as long as there is time; then the next model; then the
        end. Whether it is still the same call.
        """
        if met.rotates and self.place == 0 and self.ready:
            self.ready -= 1
            if self.ready:
                return True
        brief = self.place < self.stand_ins and not self.spent
        if met.retryable and self.limits.allow(self.tried, met.wish, brief=brief, waited=self.waiting):
            self.tried += 1
            self.pauses += 1
            if met.wish is not None and (self.tried <= OBEYED or met.wish >= 5.0):
                self.waited.append(met.wish)
                self.waiting += met.wish
            return True
        if self.toolless and met.malformed:
            self._end_spent()
        elif not self._next_model(met):
            self.tried = 0
            self.reason = self.reason or (Exit.RETRIES_EXHAUSTED if met.retryable else Exit.PROVIDER_ERROR)
        return False

    def _broken(self, met: Broken) -> None:
        """Gone on with, five times in a turn; then what came is the answer."""
        if not met.retryable:
            if self.toolless and met.malformed:
                self._end_spent()
            elif not self._next_model(Refused(False)):
                self.reason = self.reason or Exit.PROVIDER_ERROR
            return
        self.pieces.append(met.text)
        self._appended()
        if not self._allowed("cut", 5):
            self.reason = Exit.PARTIAL_STREAM

    def _said(self, met: Said) -> None:
        self.pieces.append(met.text)
        self._appended()
        if self.final:
            self.reason = Exit.BUDGET_EXHAUSTED
        elif not met.cut:
            self.reason = Exit.TEXT_RESPONSE
        elif not self._allowed("length", 3):
            self.reason = Exit.TRUNCATED

    def _called(self, met: Called) -> None:
        if self.final:
            self._called_at_the_end(met)
            return
        self.pieces.clear()
        self.invalid = 0 if met.valid else self.invalid + 1
        self._appended(tools=True, prior=met.text if met.house else "")
        if self.invalid > 3:
            self.reason = Exit.INVALID_CALLS

    def _called_at_the_end(self, met: Called) -> None:
        """Calls are not run any more; the text beside them is the answer."""
        if met.text:
            self.pieces.append(met.text)
            self.reason = Exit.BUDGET_EXHAUSTED
        else:
            self._ask_for_words(calls=True)

    def _ask_for_words(self, *, calls: bool) -> None:
        """Asked once more for words, after calls on the chat wire without tools; then there is a note (row ML-05)."""
        if self._allowed("in words", 1):
            self.toolless = calls and self.wires[self.place] == "chat_completions"
            self._appended()
        else:
            self._end_spent()

    def _end_spent(self) -> None:
        self.reason = Exit.BUDGET_EXHAUSTED
        self.pieces = self.pieces or [NO_ANSWER]

    def _empty(self, met: Empty) -> None:
        """The steps of rows ES-02 to ES-07, in their order."""
        if self.final:
            self._ask_for_words(calls=False)
        elif self.prior:
            self.pieces.append(self.prior)
            self.reason = Exit.PRIOR_CONTENT
        elif (self.after_tools and self._allowed("nudge", 1)) or (met.thought and self._allowed("thought", 2)):
            self._appended()
        elif not self._allowed("again", 3) and not self._next_model(Refused(False)) and self.reason is None:
            # ES-01: what was streamed before is the answer; only where nothing was, nothing is.
            self.reason = Exit.PARTIAL_STREAM if self.pieces else Exit.EMPTY_RESPONSE
            self.pieces = self.pieces or ["(empty)"]
