"""What is said over the socket: one JSON object a line, asked by the process that connects, told by the one that
listens. `id` is chosen by who asks, and names the answer."""

import msgspec
from msgspec import Struct

from hermes.core.errors import BusyError, ConfigError, HermesError, NotFoundError, StoreError, UsageError
from hermes.core.events import Event, TurnEnded
from hermes.runtime.mailbox import Inbound

LARGEST = 32 << 20
"""Bytes of one line: pictures go along in it."""


class Attach(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attach"):
    """Take part in a session that this process holds; answered by `Attached`, then by its events."""

    session_id: str
    asks: bool = False
    """Whether somebody sits there who answers questions."""
    language: str = ""


class Post(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="post"):
    """Say something; answered by `Ended` when its turn has. `way` is that of `Delivery`: queue, steer, interrupt."""

    id: int
    inbound: Inbound
    way: str = "queue"
    in_order: bool = False


class Forward(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="forward"):
    """The same for what stands in the session's inbox already, as `letter_id`."""

    id: int
    letter_id: str
    inbound: Inbound
    joins: bool = False
    first: bool = False


class Stop(Struct, frozen=True, tag="stop"):
    """Stop the running turn."""


class Answer(Struct, frozen=True, kw_only=True, tag="answer"):
    """Answer a question whether something may be done."""

    approval_id: str
    scope: str


class Command(Struct, frozen=True, kw_only=True, tag="command"):
    """Carry a slash command out; answered by `Done`, and before that by what it tells and asks."""

    id: int
    name: str
    text: str = ""


class Reply(Struct, frozen=True, kw_only=True, tag="reply"):
    """The answer to `Asked`: the number of a row, a text, or nothing."""

    id: int
    value: int | str | None = None


class Oneshot(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="oneshot"):
    """One message to a fresh session, or to the one that `resume` or `latest` names, for somebody who waits for its
    end; answered by `Ended`. `environ` and `cwd` are the caller's."""

    text: str
    environ: dict[str, str]
    cwd: str
    asks: bool = False
    resume: str | None = None
    latest: bool = False
    model: str = ""
    provider: str = ""
    max_turns: int | None = None
    max_cost: float | None = None
    toolsets: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()


class Go(Struct, frozen=True, tag="go"):
    """The caller has heard that its `Oneshot` was taken on, and waits."""


class Send(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="send"):
    """Owe a message to a chat; answered by `Done`."""

    id: int
    to: str
    text: str = ""
    file: str = ""


class Status(Struct, frozen=True, tag="status"):
    """How do things stand? Answered by `Standing`."""


class Reload(Struct, frozen=True, tag="reload"):
    """Read the settings anew; answered by `Done` with what came of it."""

    id: int = 0


Ask = Attach | Post | Forward | Stop | Answer | Command | Reply | Oneshot | Go | Send | Status | Reload


class Attached(Struct, frozen=True, kw_only=True, tag="attached"):
    """Where the session stands."""

    session_id: str
    pid: int
    busy: bool
    model: str
    window: int | None = None
    place: str = ""
    title: str = ""
    yolo: bool = False


class Happened(Struct, frozen=True, tag="happened"):
    """An event of the session."""

    event: Event


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="ended"):
    """How a turn ended; without one: it was cancelled or, with `error`, never came to an end."""

    id: int = 0
    ended: TurnEnded | None = None
    error: "Trouble | None" = None
    code: int = 0
    """Of a `Oneshot`: what the caller's process ends with."""


class Told(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="told"):
    """Lines of a command, or (`markdown`) a text."""

    text: str
    level: str = "info"
    markdown: bool = False


class Asked(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="asked"):
    """A command or the model asks something: one of the rows, or a text."""

    id: int
    title: str
    options: tuple[tuple[str, str], ...] = ()
    chosen: int = 0
    kind: str = "choose"
    """`choose`, `confirm`, `line` (with `default`), or `model`: one of the rows or a text."""
    default: str = ""


class Trouble(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="trouble"):
    """Something went wrong; `id` names what was asked."""

    kind: str
    message: str
    hint: str = ""
    id: int = 0


class Done(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="done"):
    """What was asked was done."""

    id: int
    said: str = ""


class Standing(Struct, frozen=True, kw_only=True, tag="standing"):
    """How things stand."""

    health: dict[str, object]


class Taken(Struct, frozen=True, tag="taken"):
    """A `Oneshot` is taken on, in this session; nothing is begun before the caller says `Go`."""

    session_id: str


class Alone(Struct, frozen=True, tag="alone"):
    """This has to be done by a process of the caller's own."""

    why: str = ""


Tell = Attached | Happened | Ended | Told | Asked | Trouble | Done | Standing | Taken | Alone

_KINDS: dict[str, type[HermesError]] = {
    kind.__name__: kind for kind in (BusyError, ConfigError, NotFoundError, StoreError, UsageError)
}


def trouble(error: HermesError, number: int = 0) -> Trouble:
    """An error as it is said."""
    return Trouble(kind=type(error).__name__, message=error.message, hint=error.hint, id=number)


def error_of(said: Trouble) -> HermesError:
    """And back, as far as callers tell them apart."""
    return _KINDS.get(said.kind, HermesError)(said.message, said.hint)


def decoder_of_asks() -> "msgspec.json.Decoder[Ask]":
    """What reads what is asked."""
    return msgspec.json.Decoder(Ask)


def decoder_of_tells() -> "msgspec.json.Decoder[Tell]":
    """What reads what is told."""
    return msgspec.json.Decoder(Tell)
