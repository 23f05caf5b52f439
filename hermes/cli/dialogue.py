"""The plain chat: a message, an answer, and so on; and the few commands that it knows."""

import re
from collections.abc import Awaitable, Callable, Sequence

from hermes.app.wiring import App
from hermes.cli.ask import late_answer
from hermes.cli.report import complain
from hermes.cli.terminal import Key, Source
from hermes.core.errors import HermesError
from hermes.core.outcomes import ExitReason
from hermes.plugins import suggestion
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.util.text import inert

PROMPT = "> "
BLOCK_PROMPT = ". "
FENCE = '"""'
COMMANDS = {
    "/help": "this list",
    "/new": "begin a new session; the one before is kept",
    "/compress": "condense the older part of this conversation now; `/compress --undo` puts it back",
    "/stop": "end the background processes (`/stop all` too); Ctrl-C stops an answer",
    "/yolo": "ask nothing in this session (refusals stand); again: ask as before",
    "/skills": "the skills; `/NAME what to do` uses one; /skills pending, diff N, approve N, reject N",
    "/memory": "what is remembered; /memory pending, approve N, reject N, undo N",
    "/session": "this session's id, model, window and tokens used so far",
    "/usage": "what this session used and cost, and what the provider's cache saved",
    "/quit": "leave (as /exit and Ctrl-D do)",
}
HELP = f"""\
Type a message and Enter. Ctrl-C stops an answer, and clears a line that is being typed.
A line {FENCE} begins a message of several lines, which ends with the next {FENCE}.
""" + "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
YOLO = """\
!! NO QUESTIONS: until this session is closed everything that would need your yes runs without it:
!! deleting, sending, running what was downloaded. Only what is never allowed stays refused. /yolo ends it."""
_RISKY = "yolo"
LEAVING = ("/quit", "/exit")
_COMMAND = re.compile(r"(/[A-Za-z][\w-]*)(?:[ \t]+(.*))?")
"""A line that is a command, and what stands behind it. A path has a second slash, and is a message."""


class Dialogue:
    """Talks with one session after the other; `begin` opens a fresh one.

    `closed` tells once whether a question was closed before it was answered here.
    """

    def __init__(
        self,
        app: App,
        source: Source,
        actor: SessionActor,
        *,
        begin: Callable[[], Awaitable[SessionActor]],
        closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app = app
        self._source = source
        self._actor = actor
        self._begin = begin
        self._closed = closed
        self._yolo = False

    async def run(self) -> int:
        """Talk until the person leaves or the input ends; returns the exit code."""
        if self._source.typed:
            print(f"{self._model()}, window: {await self._window()}.")
            if self._app.endpoint.cache_ttl:
                print(f"Prompt caching: on ({self._app.endpoint.cache_ttl})")
            print(await self._app.place_line(self._actor))
            print(f"Session {self._actor.session_id}. /help tells more, /quit ends it; Ctrl-C stops an answer.")
        await self._go_on()
        code = await self._talk()
        if self._source.typed:
            self._kept()
        return code

    async def _go_on(self) -> None:
        """Finish what a process that died has left: its turn, and the messages that waited behind it."""
        if self._actor.unfinished:
            with self._source.during(self._actor.stop):
                self._actor.resume()
                await self._actor.idle()

    async def _talk(self) -> int:
        breaks = 0
        while True:
            said = await self._source.next(PROMPT)
            breaks = breaks + 1 if said is Key.BREAK else 0
            if said is Key.END or breaks == 2:
                return 0
            if isinstance(said, Key):
                print(f"{'Ctrl-C again' if breaks else '/quit'} or Ctrl-D leaves.")
                continue
            if self._closed() and late_answer(said):
                print(f"The question that `{said.strip()}` would answer is closed; nothing was sent.")
                continue
            code = await self._heard(said)
            if code is not None:
                return code

    async def _heard(self, said: str) -> int | None:
        """Do what a line means; returns the exit code when that ends the chat."""
        if said.strip() == FENCE:
            return await self._block()
        command = _COMMAND.fullmatch(said)
        if command is None:
            return await self._turn(said)
        name, text = command[1], command[2] or ""
        if name in LEAVING and not text:
            return 0
        if name in (*COMMANDS, *LEAVING):
            await self._command(name, text)
            return None
        skills = await self._app.skills().names()
        if name.removeprefix("/") in skills:
            return await self._turn(said)
        near = _nearest(name, skills)
        print(" ".join(f"There is no command {name}. {near} A space in front sends it as a message.".split()))
        return None

    async def _block(self) -> int | None:
        """The lines up to the closing fence as one message; Ctrl-C throws them away."""
        block: list[str] = []
        while True:
            line = await self._source.next(BLOCK_PROMPT)
            if line is Key.END:
                complain(f"The message has no closing {FENCE}; it was not sent.")
                return 0
            if isinstance(line, Key):
                print("The message was thrown away. /quit or Ctrl-D leaves.")
                return None
            if line.strip() == FENCE:
                return await self._turn("\n".join(block))
            block.append(line)

    async def _turn(self, text: str) -> int | None:
        """One turn, when there is something to say; an exit code when this process cannot go on with the session."""
        if not text.strip():
            return None
        with self._source.during(self._actor.stop):
            ended = await self._actor.post(Inbound(text=text, cwd=self._app.options.cwd))
        if ended.reason is ExitReason.INTERRUPTED:
            complain("Stopped.")
        return 1 if ended.reason is ExitReason.LOCAL_ERROR else None

    async def _command(self, name: str, text: str) -> None:
        if name == "/stop":
            await self._stop(text)
        elif name == "/skills":
            from hermes.cli.skills import told

            print("\n".join(await told(self._app.skills(), text.split())))
        elif name == "/memory":
            from hermes.cli.memory import told as memory_told

            print("\n".join(await memory_told(self._app.memory(), text.split())))
        elif name == "/compress" and text in ("", "--undo"):
            await self._condense(undo=bool(text))
        elif text:
            print(f"{name} takes nothing behind it. A space in front sends it all as a message.")
        elif name == "/new":
            await self._app.close_session(self._actor)
            self._kept()
            self._actor, self._yolo = await self._begin(), False
            print(f"Session {self._actor.session_id}.")
        elif name == "/yolo":
            self._yolo = not self._yolo
            self._app.yolo(self._actor, on=self._yolo)
            print(YOLO if self._yolo else "Questions are asked again.")
        else:
            await self._tell(name)

    async def _tell(self, name: str) -> None:
        """The commands that only show something."""
        if name == "/session":
            await self._describe()
        elif name == "/usage":
            from hermes.cli.spending import usage_lines

            for line in usage_lines(await self._app.usage(self._actor)):
                print(line)
        else:
            print(HELP)

    async def _stop(self, text: str) -> None:
        if text not in ("", "all"):
            print("/stop, or /stop all, ends every background process; there is no other word for it.")
            return
        for line in await self._app.stop_processes(self._actor) or ["No background process runs."]:
            print(inert(line))

    async def _condense(self, *, undo: bool) -> None:
        """What was condensed, or why nothing was, is shown as a notice."""
        with self._source.during(self._actor.stop):
            try:
                done = await self._actor.condense(undo=undo)
            except HermesError as error:
                complain(f"{error.message} {error.hint}".strip())
                return
        if undo:
            print("It stands here again as it was." if done else "There is nothing that could be put back.")

    async def _describe(self) -> None:
        about = await self._app.about(self._actor)
        title = inert(str(about["title"]))
        print(f"Session {about['id']}{f' ({title})' if title else ''}, {about['message_count']} messages.")
        print(f"Model {self._model()}, window: {await self._window()}.")
        print(await self._app.place_line(self._actor))
        if self._yolo:
            print("NO QUESTIONS are asked in this session (/yolo ends that); what is never allowed stays refused.")
        print(f"Tokens used so far: {about['input_tokens']:,} in, {about['output_tokens']:,} out.")

    def _model(self) -> str:
        title = self._app.endpoint.record.title
        whose = f"t{title[1:]}" if title.startswith("The ") else title
        return f"{self._app.endpoint.model} from {whose}"

    async def _window(self) -> str:
        length = await self._app.context_length()
        return f"{length:,} tokens" if length is not None else "unknown (set model.context_length)"

    def _kept(self) -> None:
        """Tell how to go on with a session in which something was said."""
        if self._actor.conversation.messages:
            print(f"hermes --resume {self._actor.session_id} goes on with it.")


def _nearest(name: str, skills: Sequence[str]) -> str:
    """A suggestion for a mistyped command; the one that ends all questions only for a slip of one letter."""
    words = [*(one.removeprefix("/") for one in (*COMMANDS, *LEAVING)), *skills]
    typed = name.removeprefix("/").lower()
    near = suggestion(typed, words if _one_slip(typed, _RISKY) else [one for one in words if one != _RISKY])
    return near.replace("'", "'/", 1)


def _one_slip(one: str, other: str) -> bool:
    """Whether at most one letter was left out, added, or taken for another."""
    pairs = zip(one, other, strict=False)
    start = next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
    ends = (one[start:], other[start + 1 :]), (one[start + 1 :], other[start:]), (one[start + 1 :], other[start + 1 :])
    return one == other or any(left == right for left, right in ends)
