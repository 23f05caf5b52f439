"""Random scripts of faults, with what must come of each stated beforehand.

A script is made by walking `Promise`. At each step it knows which server is asked next; a fault (or a good answer) is
drawn for that server, and the promise moves on.
"""

import random
from dataclasses import dataclass, field, replace

from hermes.core.outcomes import ExitReason as Exit
from hermes.core.usage import Usage
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, StreamError
from tests.torture.fault_promise import (
    IN_A_ROW,
    WHOLE,
    Broken,
    CallCut,
    Called,
    Empty,
    Limits,
    Meaning,
    OnlyThought,
    Promise,
    Refused,
    Repeated,
    Resent,
    Said,
    Setup,
    Stopped,
    TooLarge,
    Unstreamed,
)

WIRES = ("chat_completions", "responses", "anthropic_messages")
READ_SECONDS = 1.0
"""The read time-out of scripts with a server that hangs."""
LEAD = {"chat_completions": 1, "responses": 4, "anthropic_messages": 3}
"""Events of an answer before the first piece of its first text or thought."""
TAIL = {"chat_completions": 3, "responses": 3, "anthropic_messages": 3}
"""Events of an answer after the last piece of its last call's arguments."""
CHUNK = 8


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
    said: list[str] = field(default_factory=list)
    """Text that must be shown once."""


@dataclass
class Script:
    """Everything that is needed to play a script and to judge what came of it."""

    seed: int
    wires: tuple[str, ...]
    """Of the first model, then of those that stand in for it."""
    limits: Limits
    setup: Setup
    max_turns: int
    replies: tuple[list[Reply], ...]
    turns: list[Turn] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    spent: list[tuple[int, int, int]] = field(default_factory=list)
    """Server, input and output tokens of each whole answer that said what it cost."""
    epochs: int = 0
    waited: list[float] = field(default_factory=list)
    pauses: int = 0
    said: list[str] = field(default_factory=list)
    """Text that must be in the transcript once."""
    unsaid: list[str] = field(default_factory=list)
    """Text that must not be in the transcript."""
    hangs: bool = False
    permanent: bool = False
    """Whether a fault is among them that only a person can end, or that is not waited for."""


class Maker:
    """Draws a script. The same seed gives the same script."""

    def __init__(self, seed: int, *, on_time: bool = False) -> None:
        self.random = draw = random.Random(seed)
        self.on_time = on_time
        """Whether the script is played on the real clock: one plain turn, which nobody stops, without long wishes."""
        wires = tuple(draw.choice(WIRES) for _ in range(draw.choice((1, 1, 2, 2, 3))))
        minutes = draw.choice((None, None, None, None, None, 0.0))
        limits = Limits(draw.choice((None, None, None, 1, 2, 3)), minutes, unattended=draw.random() < 0.3)
        max_turns = draw.choice((90, 90, 90, 90, 2, 4))
        setup = Setup(
            plain=draw.random() < 0.5,
            keys=draw.choice((1, 1, 1, 2, 3)),
            streams=draw.random() < 0.8,
            tools=draw.random() < 0.8,
        )
        if on_time:
            setup = replace(setup, plain=True, tools=True, keys=1)
        if setup.plain:
            limits, max_turns = Limits(unattended=limits.unattended), 90
            setup = replace(setup, picture=draw.random() < 0.2 and not on_time)
        self.script = Script(seed, wires, limits, setup, max_turns, tuple([] for _ in wires))
        self.promise = Promise(wires, limits, setup, max_turns)
        self.left = IN_A_ROW if setup.plain else 1 << 30
        """How many faults may still come."""
        self.kept: list[bool | None] = [False] * len(wires)
        """Whether a connection to each server is kept open; None: it cannot be known."""
        self.known = [False] * len(wires)
        """Whether each server has answered before, so that a page in its place passes."""
        self.number = 0
        self.streak = 0
        self.obsession = (
            draw.choice([*FAULTS, "truncated", "truncated", "empty", *["cut mid-stream"] * 4])
            if draw.random() < 0.6
            else ""
        )
        """A fault that comes again and again, always in the same form; empty: any fault may come."""
        if setup.plain:
            self.obsession = ""
        self.form = draw.getstate()
        self.hunger = draw.choice((0.95, 0.95, 0.6)) if self.obsession else draw.choice((0.62, 0.62, 0.4))
        """How likely the next reply is a fault."""

    def make(self) -> Script:
        """The script."""
        script, promise = self.script, self.promise
        for number in range(1 if self.on_time else self.random.choice((1, 1, 2, 3))):
            if number:
                promise.begin()
            turn = Turn()
            self.streak = 0
            while promise.reason is None:
                self._step(turn)
            turn.reason, turn.text, turn.calls = promise.reason, promise.text, promise.calls
            script.turns.append(turn)
        script.epochs, script.waited, script.pauses = promise.epochs, promise.waited, promise.pauses
        return script

    def _step(self, turn: Turn) -> None:
        """One more request: what it meets, and what that means."""
        place = self.promise.place
        self.wire = self.script.wires[place]
        self.keeps: bool | None = True
        self.counted = True
        self.number += 1
        fault = "good"
        if self.streak < IN_A_ROW and self.left and self.random.random() < self.hunger:
            other = not self.obsession or (self.streak == 0 and self.random.random() < 0.4)
            fault = self.random.choice(list(FAULTS)) if other else self.obsession
            self.left -= 1
        reply, meaning = self._draw(fault)
        self.streak = 0 if fault == "good" else self.streak + 1
        turn.faults.append(fault)
        if isinstance(reply, Say):
            usage = Usage(input=1000 + self.number, output=100 + self.number)
            reply = Say(reply.text, reply.reasoning, reply.calls, usage, reply.finish, CHUNK, reply.delivery)
            if isinstance(meaning, WHOLE) and self.counted:
                turn.usage += usage
                self.script.spent.append((place, usage.input, usage.output))
        self.script.replies[place].append(reply)
        if isinstance(meaning, Stopped):
            turn.stop = (place, len(self.script.replies[place]), meaning.text)
            self.script.unsaid += [meaning.text] if meaning.text else []
        if isinstance(meaning, Said | Called) or (isinstance(meaning, Broken) and meaning.retryable):
            self.script.said += [meaning.text] if meaning.text else []
            turn.said += [meaning.text] if meaning.text else []
        contrary = isinstance(meaning, Unstreamed) and not self.promise.streams
        self.script.permanent |= contrary or _is_permanent(meaning, self.script.limits)
        if isinstance(meaning, Called) and not self.promise.final:
            self.script.effects += meaning.tokens
        self.kept[place] = self.keeps
        self.known[place] |= isinstance(meaning, WHOLE) or (isinstance(meaning, Broken) and meaning.retryable)
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

    @property
    def can_break_calls(self) -> bool:
        """Whether arguments can be sent that are no JSON: a whole answer of Anthropic's has an object there."""
        return self.promise.streams or self.wire != "anthropic_messages"

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
        if not self.promise.streams:
            self.keeps = False
            return ReplyDelivery(ending=ending, at_bytes=self.random.randint(1, 20)), Refused(True), "", text
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
    before = made.promise.text
    if before and made.random.random() < 0.6:
        return repeated(made, before, text)
    if made.random.random() < 0.55 or len(made.script.effects) > 12 or not made.script.setup.tools:
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


def repeated(made: Maker, before: str, text: str) -> tuple[Reply, Meaning]:
    """An answer that goes on, but begins with its last words or anew, or says nothing else."""
    how = made.random.choice(("last", "last", "anew", "anew", "only"))
    if how == "only":
        return Say(before), Repeated()
    again = before if how == "anew" else before[-CHUNK * made.random.randint(1, 3) :]
    return Say(again + text), Said(text)


def _is_permanent(met: Meaning, limits: Limits) -> bool:
    match met:
        case Refused():
            return not met.retryable or (met.wish or 0.0) > limits.seconds
        case Broken():
            return not met.retryable
        case _:
            return isinstance(met, OnlyThought | Stopped)


def limited(made: Maker) -> tuple[Reply, Meaning]:
    """429, with and without a wish."""
    wish = made.random.choice((None, None, 3.0, 45.0, 600.0))
    if (wish == 45.0 and made.script.limits.tries is not None) or made.script.setup.keys > 1:
        wish = None  # whether a key still waits when the model is called again depends on random pauses
    wish = wish and min(wish, 3.0) if made.on_time else wish
    headers = {} if wish is None else {"retry-after": f"{wish:g}"}
    return Fail(429, message="Rate limit reached", headers=headers), Refused(True, wish, rotates=True)


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
    if made.random.random() < 0.75 or not made.promise.streams:
        statuses = (400, 402, 402, 422, 301) if made.script.setup.keys > 1 else (400, 401, 402, 403, 404, 422, 301)
        status = made.random.choice(statuses)
        passes = status == 301 and made.known[made.promise.place]
        rotates, malformed = status in (401, 402, 403), status in (400, 422)
        return Fail(status, message="It is not for you"), Refused(passes, rotates=rotates, malformed=malformed)
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
    if where < 0.5 and made.promise.streams and made.script.setup.tools:
        call, _ = made.call()
        text = made.words() if made.random.random() < 0.6 else ""
        at = -TAIL[made.wire] - made.random.randint(0, 3)
        made.keeps = None
        return Say(text, calls=(call,), delivery=ReplyDelivery(ending=ending, at=at)), (
            Broken(text) if text else Refused(True)
        )
    if where < 0.6 and made.wire != "responses" and made.promise.streams:
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
    if made.random.random() < 0.2 and not made.on_time:
        meaning = Stopped(meaning.text if isinstance(meaning, Broken) else "")
    return Say(text, thought, delivery=delivery), meaning


def garbage(made: Maker) -> tuple[Reply, Meaning]:
    """Bytes that belong to no protocol: passed over as the standard says, or half a JSON event."""
    text = made.words()
    if made.random.random() < 0.4 and made.promise.streams:
        rubbish = made.random.choice((b"\x00\xff\xfe nonsense\n\n", b": still here\n\n", b"id: 5\nretry: 10\n\n"))
        where = ReplyDelivery(garbage=rubbish, garbage_at=made.random.randint(0, LEAD[made.wire] + 1))
        return Say(text, delivery=where), Said(text)
    delivery, meaning, thought, text = made.broken_off(Ending.CUT)
    if not made.promise.streams:
        return Say(text, thought, delivery=delivery), meaning
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
    if not made.script.setup.tools or (how == "call" and not made.can_break_calls):
        how = "text"
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
    if not made.script.setup.tools or not made.can_break_calls:
        return unknown_tool(made)
    broken = Call("terminal", made.random.choice(forms) % made.number)
    said = made.words() if made.random.random() < 0.5 else ""
    if made.random.random() < 0.3:
        call, token = made.call()
        return Say(said, calls=(broken, call)), Called(said, (token,))
    return Say(said, calls=(broken,)), Called(said, valid=False)


def unknown_tool(made: Maker) -> tuple[Reply, Meaning]:
    """A tool that is not there; alone, or beside a good call."""
    unknown = Call(f"frobnicate_{made.number}", {"x": 1})
    if made.random.random() < 0.3 and made.script.setup.tools:
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
    if made.random.random() < 0.4 and made.script.setup.tools:
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
    return page, Refused(made.known[made.promise.place])


def page(made: Maker) -> tuple[Reply, Meaning]:
    """A proxy's page in the place of an answer: passes where the server has answered before."""
    status = 405 if made.script.setup.keys > 1 else made.random.choice((404, 405))
    return Fail(status, body="<html><h1>Blocked</h1></html>"), Refused(made.known[made.promise.place])


def unstreamed(made: Maker) -> tuple[Reply, Meaning]:
    """A server that does not stream."""
    return Fail(400, message="Streaming is not supported by this model."), Unstreamed()


def too_large(made: Maker) -> tuple[Reply, Meaning]:
    """413 for a request with a picture, which can be left out; any other request is refused for good."""
    if made.promise.pictured:
        return Fail(413, message="Request too large"), TooLarge()
    return Fail(422, message="It is not for you"), Refused(False)


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
    "page": page,
    "no streams": unstreamed,
    "413": too_large,
}


def script_of(seed: int, *, on_time: bool = False) -> Script:
    """The script of a seed; `on_time`: one for the real clock."""
    return Maker(seed, on_time=on_time).make()
