"""Random scripts of faults, with what must come of each stated beforehand.

A script is made by walking `Promise`, which says what the recovery table promises: it was written from `docs/errors.md`
and the feature rows it cites (ML, ER, RC, TC, TD, ES, FZ) and calls nothing of the product. At each step it knows which
server is asked next; a fault (or a good answer) is drawn for that server, and the promise moves on.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from hermes.core.outcomes import ExitReason as Exit
from hermes.core.usage import Usage
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, StreamError

WIRES = ("chat_completions", "responses", "anthropic_messages")
IN_A_ROW = 5
READ_SECONDS = 1.0
"""The read time-out of scripts with a server that hangs."""
LEAD = {"chat_completions": 1, "responses": 4, "anthropic_messages": 3}
"""Events of an answer before the first piece of its first text or thought."""
TAIL = {"chat_completions": 3, "responses": 3, "anthropic_messages": 3}
"""Events of an answer after the last piece of its last call's arguments."""
CHUNK = 8


@dataclass(frozen=True)
class Refused:
    """No answer, and no text of one was shown (rows ER, RC-09 to RC-12)."""

    retryable: bool
    wish: float | None = None
    malformed: bool = False
    """Whether the server says that the request is wrong."""


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


Meaning = Refused | Broken | Said | Called | CallCut | OnlyThought | Empty | Resent | Stopped


@dataclass
class Turn:
    """One turn of a script: how it must end, and when the person stops it."""

    faults: list[str] = field(default_factory=list)
    reason: Exit = Exit.TEXT_RESPONSE
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    stop: tuple[int, int, str] | None = None
    """The server, how many requests it has by then, and text that is shown first."""


@dataclass
class Script:
    """Everything that is needed to play a script and to judge what came of it."""

    seed: int
    wires: tuple[str, ...]
    """Of the first model, then of those that stand in for it."""
    tries: int
    max_turns: int
    replies: tuple[list[Reply], ...]
    turns: list[Turn] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    spent: list[tuple[int, int, int]] = field(default_factory=list)
    """Server, input and output tokens of each whole answer that said what it cost."""
    epochs: int = 0
    waited: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Text that must be in the transcript once."""
    unsaid: list[str] = field(default_factory=list)
    """Text that must not be in the transcript."""
    hangs: bool = False


NO_ANSWER = "(The limit of steps for one turn was reached before an answer was written.)"


class Promise:
    """What the documents promise, as a machine: fed with what each request meets, it says when and how a turn ends."""

    def __init__(self, wires: tuple[str, ...], tries: int, max_turns: int) -> None:
        self.wires, self.stand_ins, self.tries, self.max_turns = wires, len(wires) - 1, tries, max_turns
        self.place = 0
        self.epochs = 0
        self.waited: list[float] = []
        self.begin()

    def begin(self) -> None:
        """A turn begins, with the first model again (row RC-12)."""
        self.epochs += self.place > 0
        self.place = 0
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

    def _call(self) -> None:
        """Another model call: a step of the budget; the last is made without tools (rows ML-01, ML-05)."""
        self.tried = 0
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
        match met:
            case Resent():
                return
            case Refused():
                self._refused(met)
            case Broken():
                self._broken(met)
            case Said():
                self._said(met)
            case Called():
                self._called(met)
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
            case Empty():
                self._empty(met)
            case Stopped():
                self.reason = Exit.INTERRUPTED
        if self.reason is None and not (isinstance(met, Refused) and self.tried):
            self._call()

    def _next_model(self) -> bool:
        if self.place == self.stand_ins:
            return False
        self.place += 1
        self.epochs += 1
        self.tried = 0
        return True

    def _refused(self, met: Refused) -> None:
        """Tried again with pauses, `tries` calls in all; then the next model; then the end."""
        patience = 20.0 if self.place < self.stand_ins else 120.0
        if met.retryable and self.tried + 1 < self.tries and (met.wish or 0.0) <= patience:
            self.tried += 1
            if met.wish is not None:
                self.waited.append(met.wish)
        elif self.toolless and met.malformed:
            self._spent()
        elif not self._next_model():
            self.tried = 0
            self.reason = Exit.RETRIES_EXHAUSTED if met.retryable else Exit.PROVIDER_ERROR

    def _broken(self, met: Broken) -> None:
        """Gone on with, three times in a turn; then what came is the answer."""
        if not met.retryable:
            if self.toolless and met.malformed:
                self._spent()
            elif not self._next_model():
                self.reason = Exit.PROVIDER_ERROR
            return
        self.pieces.append(met.text)
        self._appended()
        if not self._allowed("cut", 3):
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
            self._wordless(calls=True)

    def _wordless(self, *, calls: bool) -> None:
        """Asked once more for words, after calls on the chat wire without tools; then there is a note (row ML-05)."""
        if self._allowed("in words", 1):
            self.toolless = calls and self.wires[self.place] == "chat_completions"
            self._appended()
        else:
            self._spent()

    def _spent(self) -> None:
        self.reason = Exit.BUDGET_EXHAUSTED
        self.pieces = self.pieces or [NO_ANSWER]

    def _empty(self, met: Empty) -> None:
        """The steps of rows ES-02 to ES-07, in their order."""
        if self.final:
            self._wordless(calls=False)
        elif self.prior:
            self.pieces.append(self.prior)
            self.reason = Exit.PRIOR_CONTENT
        elif (self.after_tools and self._allowed("nudge", 1)) or (met.thought and self._allowed("thought", 2)):
            self._appended()
        elif not self._allowed("again", 3) and not self._next_model():
            # ES-01: what was streamed before is the answer; only where nothing was, nothing is.
            self.reason = Exit.PARTIAL_STREAM if self.pieces else Exit.EMPTY_RESPONSE
            self.pieces = self.pieces or ["(empty)"]


class Maker:
    """Draws a script. The same seed gives the same script."""

    def __init__(self, seed: int) -> None:
        self.random = draw = random.Random(seed)
        wires = tuple(draw.choice(WIRES) for _ in range(draw.choice((1, 1, 2, 2, 3))))
        tries = draw.choice((1, 2, 3, 3))
        max_turns = draw.choice((90, 90, 90, 90, 2, 4))
        self.script = Script(seed, wires, tries, max_turns, tuple([] for _ in wires))
        self.promise = Promise(wires, tries, max_turns)
        self.kept: list[bool | None] = [False] * len(wires)
        """Whether a connection to each server is kept open; None: it cannot be known."""
        self.number = 0
        self.streak = 0
        self.obsession = draw.choice([*FAULTS, "truncated", "truncated", "empty"]) if draw.random() < 0.45 else ""
        """A fault that comes again and again, always in the same form; empty: any fault may come."""
        self.form = draw.getstate()
        self.hunger = draw.choice((0.95, 0.95, 0.6)) if self.obsession else draw.choice((0.62, 0.62, 0.4))
        """How likely the next reply is a fault."""

    def make(self) -> Script:
        """The script."""
        script, promise = self.script, self.promise
        for number in range(self.random.choice((1, 1, 2, 3))):
            if number:
                promise.begin()
            turn = Turn()
            self.streak = 0
            while promise.reason is None:
                self._step(turn)
            turn.reason, turn.text, turn.calls = promise.reason, promise.text, promise.calls
            script.turns.append(turn)
        script.epochs, script.waited = promise.epochs, promise.waited
        return script

    def _step(self, turn: Turn) -> None:
        """One more request: what it meets, and what that means."""
        place = self.promise.place
        self.wire = self.script.wires[place]
        self.keeps: bool | None = True
        self.counted = True
        self.number += 1
        fault = "good"
        if self.streak < IN_A_ROW and self.random.random() < self.hunger:
            other = not self.obsession or (self.streak == 0 and self.random.random() < 0.4)
            fault = self.random.choice(list(FAULTS)) if other else self.obsession
        reply, meaning = self._draw(fault)
        self.streak = 0 if fault == "good" else self.streak + 1
        turn.faults.append(fault)
        if isinstance(reply, Say):
            usage = Usage(input=1000 + self.number, output=100 + self.number)
            reply = Say(reply.text, reply.reasoning, reply.calls, usage, reply.finish, CHUNK, reply.delivery)
            if isinstance(meaning, Said | Called | CallCut | Empty | OnlyThought) and self.counted:
                turn.usage += usage
                self.script.spent.append((place, usage.input, usage.output))
        self.script.replies[place].append(reply)
        if isinstance(meaning, Stopped):
            turn.stop = (place, len(self.script.replies[place]), meaning.text)
            self.script.unsaid += [meaning.text] if meaning.text else []
        if isinstance(meaning, Said | Called) or (isinstance(meaning, Broken) and meaning.retryable):
            self.script.said += [meaning.text] if meaning.text else []
        if isinstance(meaning, Called) and not self.promise.final:
            self.script.effects += meaning.tokens
        self.kept[place] = self.keeps
        self.promise.meet(meaning)

    def _draw(self, fault: str) -> tuple[Reply, Meaning]:
        """A good answer or a fault; an obsession in the form that it always has."""
        if fault == "good":
            return good(self)
        if fault != self.obsession:
            return FAULTS[fault](self)
        outside = self.random.getstate()
        self.random.setstate(self.form)
        drawn = FAULTS[fault](self)
        self.random.setstate(outside)
        return drawn

    # What faults are made of.

    def words(self, pieces: int = 0) -> str:
        """Text that is nowhere else, of so many pieces."""
        pieces = pieces or self.random.randint(1, 6)
        return "".join(f"{self.number:03}w{piece:02}. " for piece in range(pieces))

    def call(self, number: int = 0) -> tuple[Call, str]:
        """A call with an effect, and the line that it leaves."""
        token = f"effect-{self.number}-{number}"
        return Call("terminal", {"command": f"echo {token} >> effects.txt"}), token

    def broken_off(self, ending: Ending) -> tuple[ReplyDelivery, Meaning, str, str]:
        """A place in an answer's text to break off at: the delivery, what it means, thought and text of the answer."""
        pieces = self.random.randint(2, 6)
        text = self.words(pieces)
        where = self.random.choice(("head", "thought", "blank", "text", "text"))
        self.keeps = False
        lead = LEAD[self.wire]
        if where == "head":
            return ReplyDelivery(ending=ending, at=self.random.randint(0, lead)), Refused(True), "", text
        if where == "thought":
            return ReplyDelivery(ending=ending, at=lead + 1), Refused(True), "thinking of it all", text
        if where == "blank":
            return ReplyDelivery(ending=ending, at=lead + 1), Refused(True), "", "\n" * CHUNK + text
        shown = self.random.randint(1, pieces)
        return ReplyDelivery(ending=ending, at=lead + shown), Broken(text[: shown * CHUNK]), "", text


def good(made: Maker) -> tuple[Reply, Meaning]:
    """An answer, or a batch of calls that can be run."""
    text = made.words()
    if made.random.random() < 0.55 or len(made.script.effects) > 12:
        return Say(text), Said(text)
    if made.random.random() < 0.15:
        return Say(text, calls=(Call("todo", {"todos": [{"content": text}]}),)), Called(text, house=True)
    some = [made.call(number) for number in range(made.random.choice((1, 1, 2, 3)))]
    calls = tuple(call for call, _ in some)
    if made.random.random() < 0.2:
        calls += (calls[0],)
    elif made.random.random() < 0.2:
        calls = (Call(made.random.choice(("Terminal", "functions.terminal")), calls[0].arguments), *calls[1:])
    said = text if made.random.random() < 0.5 else ""
    thought = "let me see" if made.random.random() < 0.3 else ""
    return Say(said, thought, calls), Called(said, tuple(token for _, token in some))


def limited(made: Maker) -> tuple[Reply, Meaning]:
    """429, with and without a wish."""
    wish = made.random.choice((None, None, 3.0, 45.0, 600.0))
    headers = {} if wish is None else {"retry-after": f"{wish:g}"}
    return Fail(429, message="Rate limit reached", headers=headers), Refused(True, wish)


def failed(made: Maker) -> tuple[Reply, Meaning]:
    """5xx, as JSON or as a gateway's page."""
    status = made.random.choice((500, 502, 503, 504, 520))
    body = made.random.choice((None, "<html><h1>Bad gateway</h1></html>", ""))
    return Fail(status, body=body), Refused(True)


def overloaded(made: Maker) -> tuple[Reply, Meaning]:
    """529, or the same inside a stream."""
    if made.random.random() < 0.5:
        return Fail(529, message="Overloaded"), Refused(True)
    delivery, meaning, thought, text = made.broken_off(Ending.CUT)
    error = StreamError(type="overloaded_error", message="Overloaded")
    return Say(text, thought, delivery=_erring(delivery, error)), meaning


def refused(made: Maker) -> tuple[Reply, Meaning]:
    """4xx and what else no waiting helps against, also inside a stream."""
    if made.random.random() < 0.75:
        status = made.random.choice((400, 401, 402, 403, 404, 422, 301))
        return Fail(status, message="It is not for you"), Refused(False, malformed=status in (400, 422))
    delivery, meaning, thought, text = made.broken_off(Ending.CUT)
    error = StreamError(type="invalid_request_error", message="That was wrong")
    made.script.unsaid += [meaning.text] if isinstance(meaning, Broken) else []
    harder = Broken(meaning.text, False, True) if isinstance(meaning, Broken) else Refused(False, malformed=True)
    return Say(text, thought, delivery=_erring(delivery, error)), harder


def _erring(delivery: ReplyDelivery, error: StreamError) -> ReplyDelivery:
    return ReplyDelivery(ending=Ending.CUT, error=error, error_at=delivery.at or 0)


def cut(made: Maker) -> tuple[Reply, Meaning]:
    """The connection is closed: before, in or after the answer, or in the middle of a call."""
    ending = made.random.choice((Ending.CUT, Ending.CUT, Ending.RESET, Ending.STOP))
    where = made.random.random()
    kept = made.kept[made.promise.place]
    made.keeps = False
    if where < 0.25 and kept is not None and ending is not Ending.STOP:
        return Say("never", delivery=ReplyDelivery(head=False, ending=ending)), Resent() if kept else Refused(True)
    if where < 0.5:
        call, _ = made.call()
        text = made.words() if made.random.random() < 0.6 else ""
        at = -TAIL[made.wire] - made.random.randint(0, 3)
        made.keeps = None
        return Say(text, calls=(call,), delivery=ReplyDelivery(ending=ending, at=at)), (
            Broken(text) if text else Refused(True)
        )
    if where < 0.6 and made.wire != "responses":
        # The provider has said how it ends: nothing is lost but, on the chat wire, what it cost.
        text = made.words()
        made.counted = made.wire != "chat_completions"
        at = -2 if made.wire == "chat_completions" else -1
        return Say(text, delivery=ReplyDelivery(ending=Ending.CUT, at=at)), Said(text)
    delivery, meaning, thought, text = made.broken_off(ending)
    made.keeps = None if ending is Ending.STOP else False
    return Say(text, thought, delivery=delivery), meaning


def hang(made: Maker) -> tuple[Reply, Meaning]:
    """The server goes silent: before the head, or in the answer. Now and then the person has enough."""
    made.keeps = False
    made.script.hangs = True
    delivery, meaning, thought, text = made.broken_off(Ending.HANG)
    if made.random.random() < 0.3:
        delivery, meaning = ReplyDelivery(head=False, ending=Ending.HANG), Refused(True)
    if made.random.random() < 0.2:
        meaning = Stopped(meaning.text if isinstance(meaning, Broken) else "")
    return Say(text, thought, delivery=delivery), meaning


def garbage(made: Maker) -> tuple[Reply, Meaning]:
    """Bytes that belong to no protocol: passed over as the standard says, or half a JSON event."""
    text = made.words()
    if made.random.random() < 0.4:
        rubbish = made.random.choice((b"\x00\xff\xfe nonsense\n\n", b": still here\n\n", b"id: 5\nretry: 10\n\n"))
        where = ReplyDelivery(garbage=rubbish, garbage_at=made.random.randint(0, LEAD[made.wire] + 1))
        return Say(text, delivery=where), Said(text)
    delivery, meaning, thought, text = made.broken_off(Ending.CUT)
    half = made.random.choice((b'data: {"choices": [{"delta": {"con\n\n', b"data: \xff\xfe\n\n", b"data: null\n\n"))
    how = ReplyDelivery(ending=Ending.CUT, garbage=half, garbage_at=delivery.at or 0)
    return Say(text, thought, delivery=how), meaning


def empty(made: Maker) -> tuple[Reply, Meaning]:
    """An answer that says nothing, or a stream without an event."""
    how = made.random.choice(("nothing", "nothing", "blank", "thought", "stream"))
    if how == "stream":
        return Say("never", delivery=ReplyDelivery(at=0, ending=Ending.STOP)), Refused(True)
    if how == "thought":
        return Say("", "I think so"), Empty(thought=True)
    return Say("" if how == "nothing" else "\n \n"), Empty()


def truncated(made: Maker) -> tuple[Reply, Meaning]:
    """The length limit: in the text, in a call, in the thoughts, or just behind a call."""
    how = made.random.choice(("text", "text", "call", "call", "thought", "whole call"))
    text = made.words()
    call, token = made.call()
    if how == "text":
        return Say(text, finish="length"), Said(text, cut=True)
    if how == "thought":
        return Say("", "thinking " * 20, finish="length"), OnlyThought()
    said = text if made.random.random() < 0.5 else ""
    if how == "call":
        half = Call("terminal", '{"command": "echo half >> effects.txt')
        calls = (half,) if made.random.random() < 0.5 else (call, half)
        return Say(said, calls=calls, finish="length"), CallCut()
    return Say(said, calls=(call,), finish="length"), Called(said, (token,))


def broken_json(made: Maker) -> tuple[Reply, Meaning]:
    """Arguments of a call that are no JSON, or not those of the tool; alone, or beside a good call."""
    forms = ('{"command": "echo half-%s >> effects.txt', "[1, 2, %s]", '{"x": %s}', '{"command": [%s]}', "nul%s")
    broken = Call("terminal", made.random.choice(forms) % made.number)
    said = made.words() if made.random.random() < 0.5 else ""
    if made.random.random() < 0.3:
        call, token = made.call()
        return Say(said, calls=(broken, call)), Called(said, (token,))
    return Say(said, calls=(broken,)), Called(said, valid=False)


def unknown_tool(made: Maker) -> tuple[Reply, Meaning]:
    """A tool that is not there; alone, or beside a good call."""
    unknown = Call(f"frobnicate_{made.number}", {"x": 1})
    if made.random.random() < 0.3:
        call, token = made.call()
        return Say(calls=(unknown, call)), Called("", (token,))
    return Say(calls=(unknown,)), Called("", valid=False)


def slow(made: Maker) -> tuple[Reply, Meaning]:
    """Everything comes, but slowly or in the smallest pieces."""
    made.keeps = None
    text = made.words()
    how = made.random.choice(
        (
            ReplyDelivery(delay=0.05),
            ReplyDelivery(pace=0.005),
            ReplyDelivery(split=7),
            ReplyDelivery(body_delay=0.05),
            ReplyDelivery(head_pace=0.01),
        )
    )
    if made.random.random() < 0.4:
        call, token = made.call()
        return Say(calls=(call,), delivery=how), Called("", (token,))
    return Say(text, delivery=how), Said(text)


def wrong_type(made: Maker) -> tuple[Reply, Meaning]:
    """The answer under a wrong name, or a page in its place."""
    if made.random.random() < 0.5:
        text = made.words()
        kind = made.random.choice(("application/json", "text/plain", "application/octet-stream"))
        return Say(text, delivery=ReplyDelivery(content_type=kind)), Said(text)
    page: Reply = made.random.choice(
        (Fail(200, body="<html><title>Sign in</title></html>"), Fail(200, body={"ok": True}), Fail(200, body="Hello"))
    )
    return page, Refused(False)


FAULTS = {
    "429": limited,
    "5xx": failed,
    "529": overloaded,
    "4xx": refused,
    "cut mid-stream": cut,
    "hang": hang,
    "garbage": garbage,
    "empty": empty,
    "truncated": truncated,
    "broken JSON": broken_json,
    "unknown tool": unknown_tool,
    "slow": slow,
    "wrong content type": wrong_type,
}


def script_of(seed: int) -> Script:
    """The script of a seed."""
    return Maker(seed).make()
