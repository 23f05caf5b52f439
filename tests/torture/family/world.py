"""The family's world: a gateway that is a process, a Telegram and a Discord with people in them, and a model."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct, field

from hermes.testing.fake_platform import Shown
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.torture.family.discord_member import CHANNEL, Member, Message, members
from tests.torture.family.family_model import FamilyModel
from tests.torture.family.telegram_judge import TelegramJudge
from tests.vendors.discord import Fake as Discord
from tests.vendors.telegram import Fake as Telegram

OWNER, ANNA, BEN, GUS, ADA = "1001", "1002", "1003", "1004", "1005"
"""On Telegram: the owner, two users, a guest, an admin."""
D_OWNER, DAN, D_STRANGER = "2001", "2002", "2666"
"""On Discord: the owner, a user, somebody unknown."""
GROUP, OTHER_GROUP = "groupfamily", "groupneighbours"
PATIENCE = 25.0
"""Seconds until something that was promised counts as not kept."""
_WRITING = "▉"
"""What stands at the end of an answer that is still being written."""
HOOK_SECRET = "a-secret-of-the-oven-and-us"


class BrokenPromiseError(Exception):
    """What a page promises was not so."""


class Step(Struct, frozen=True):
    """One step: what is done, and what a page of `docs/` promises then."""

    page: str
    name: str
    expected: str
    do: "Callable[[World], Awaitable[object]]"


class World(Struct):
    """All of it, and what steps leave for later ones."""

    home: TempHome
    server: ScriptedServer
    model: FamilyModel
    telegram: Telegram
    judge: TelegramJudge
    discord: Discord
    people: dict[str, Member]
    hook_port: int
    process: asyncio.subprocess.Process | None = None
    output: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """What a step leaves for later ones: codes, ids."""
    _reader: asyncio.Task[None] | None = None

    # The gateway.

    async def start(self) -> None:
        """Start the gateway, and wait until it says that it runs and every account is connected."""
        mark = len(self.output)
        polls, known = self.telegram.feed.polls, self.discord.identified + self.discord.resumed
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "gateway", "run"),
            cwd=self.home.cwd,
            env=self.home.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reader = asyncio.create_task(self._read(self.process))

        def ready() -> bool:
            heard = self.telegram.feed.polls > polls and self.discord.identified + self.discord.resumed > known
            return heard and any("The gateway runs" in line for line in self.output[mark:])

        await wait_until(ready, "the gateway did not start", lambda: "\n".join(self.output[mark:]))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.output.append(line.decode(errors="replace").rstrip())

    async def end(self, number: signal.Signals | None = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """End the gateway by a signal, or without one wait for its end; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if process.returncode is None and number is not None:
            process.send_signal(number)
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            code = await process.wait()
        if self._reader is not None:
            await self._reader
        return code

    async def hermes(self, *arguments: str, code: int | None = 0, stdin: bytes = b"", home: str = "") -> str:
        """Run a command of ours; what it said, on both ends. A code of None is any."""
        if home:
            environ = {**self.home.environ, "HERMES_HOME": home}
            return await _run_elsewhere(self.home.cwd, environ, arguments, code)
        done = await run_hermes(self.home, *arguments, stdin=stdin)
        said = done.stdout + done.stderr
        hold(code is None or done.code == code, f"`hermes {' '.join(arguments)}` ended with {done.code}: {said[-600:]}")
        return said

    def configure(self, change: Callable[[dict[str, object]], None]) -> None:
        """Change `config.yaml`, which the program may have written to meanwhile."""
        import yaml

        settings = yaml.safe_load((self.home.hermes / "config.yaml").read_text())
        change(settings)
        self.home.write_config(settings)

    # People.

    async def tell(
        self,
        text: str,
        *expected: str,
        person: str = OWNER,
        chat: str = "",
        mention: bool | None = None,
        **more: object,
    ) -> str:
        """Somebody says something on Telegram; what the bot has shown there since, once all of `expected` is in it."""
        before = set(self.telegram.messages)
        where = chat or person
        thread = str(more.get("thread", ""))
        said = bool(chat) if mention is None else mention
        await self.telegram.say(text, person=person, chat=chat, mention=said, **more)  # type: ignore[arg-type]

        def since() -> str:
            shown = [one for one in self.telegram.shown(where, thread) if one.message_id not in before]
            return "\n".join(_readable(one) for one in shown)

        await wait_until(
            lambda: bool(since()) and _WRITING not in since() and all(one in since() for one in expected),
            f"{person} wrote {text!r} and expected {expected}",
            lambda: f"the bot said {since()!r}",
        )
        return since()

    async def quiet(self, text: str, *, person: str, chat: str = "", mention: bool = False, **more: object) -> None:
        """Somebody says something on Telegram, and nothing comes of it, while others are answered."""
        requests = len(self.server.requests)
        before = len(self.telegram.shown(chat or person, str(more.get("thread", ""))))
        await self.telegram.say(text, person=person, chat=chat, mention=mention, **more)  # type: ignore[arg-type]
        await self.tell("/whoami", person=OWNER)
        shown = self.telegram.shown(chat or person, str(more.get("thread", "")))[before:]
        hold((chat == "" and person == OWNER) or not shown, f"the bot said {[one.text for one in shown]}")
        hold(len(self.server.requests) == requests, "the model was asked")

    async def write(
        self,
        person: str,
        text: str,
        *expected: str,
        channel: str = "",
        reply_to: int = 0,
        files: Sequence[Path] = (),
    ) -> list[Message]:
        """Somebody writes on Discord with discord.py; the messages that their client has got since."""
        client = self.people[person]
        mine = await client.say(text, channel=channel, reply_to=reply_to, files=files)

        def since() -> str:
            return "\n".join(one.content for one in client.said(before=mine.id, channel=channel))

        try:
            await client.until(
                lambda: since() and _WRITING not in since() and all(one in since() for one in expected), PATIENCE
            )
        except TimeoutError:
            words = f"{person} wrote {text!r} on Discord and expected {expected}; the bot said {since()!r}"
            raise BrokenPromiseError(words) from None
        return client.said(before=mine.id, channel=channel)

    async def question(self, chat: str = OWNER, words: str = "") -> Shown:
        """The newest open question with buttons in a chat of Telegram."""

        def found() -> list[Shown]:
            return [one for one in self.telegram.shown(chat) if one.buttons and words in one.text]

        await wait_until(found, "no question with buttons came", lambda: self.telegram.text(chat)[-500:])
        return found()[-1]

    async def press(self, question: Shown, label: str, person: str = OWNER) -> None:
        """Press a button of a question."""
        labels = dict(question.buttons)
        hold(label in labels, f"there is no button {label!r} among {sorted(labels)}")
        await self.telegram.press(question.message_id, labels[label], person=person)

    async def asked(self, words: str, times: int = 1) -> RecordedRequest:
        """Wait until the model was asked something with these words, so often; the newest such request."""

        def found() -> list[RecordedRequest]:
            return [one for one in self.server.requests if words.encode() in one.body]

        await wait_until(lambda: len(found()) >= times, f"the model was not asked {words!r}", lambda: "")
        return found()[-1]

    async def until(self, seen: Callable[[], object], what: str) -> None:
        """Wait until something is so, whatever it depends on."""
        await wait_until(seen, what, lambda: self.telegram.text()[-400:])

    def file(self, name: str, content: bytes = b"the balcony needs water") -> Path:
        """A file of somebody's."""
        path = self.home.root / "outside" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path


def _readable(one: Shown) -> str:
    return one.text + "".join(f" [{label}]" for label, _ in one.buttons)


def hold(right: object, otherwise: str) -> None:
    """Raise BrokenPromiseError unless something is so."""
    if not right:
        raise BrokenPromiseError(otherwise)


async def wait_until(
    seen: Callable[[], object], what: str, state: Callable[[], str], seconds: float = PATIENCE
) -> None:
    """Look until something is so. Raises BrokenPromiseError with the state."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not seen():  # noqa: ASYNC110 - files, a process and three servers have no common event
                await asyncio.sleep(0.02)
            return
    raise BrokenPromiseError(f"{what}; {state()}")


async def _run_elsewhere(cwd: Path, environ: Mapping[str, str], arguments: Sequence[str], code: int | None) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes", *arguments),
        cwd=cwd,
        env=dict(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    hold(code is None or process.returncode == code, f"{arguments} ended with {process.returncode}: {out.decode()}")
    return out.decode()


def settings(telegram: Telegram, chat: Discord, hook_port: int) -> dict[str, object]:
    """What stands in the family's `config.yaml` besides the model."""
    kitchen = {"secret": HOOK_SECRET, "prompt": "SAY: the oven {oven.number} is hot\n{oven.note}", "deliver": "home"}
    bell = {"secret": HOOK_SECRET, "prompt": "Somebody rings at door {door}.", "deliver": f"telegram:{ANNA}"}
    return {
        "platforms": {
            "telegram": {
                "base_url": telegram.url,
                "owners": [OWNER],
                "admins": [ADA],
                "allow": [ANNA, BEN],
                "guests": [GUS],
                "groups": [telegram.chat_id(GROUP)],
                "batch_seconds": 0.05,
                "poll_seconds": 2,
            },
            "discord": {
                "base_url": chat.options()["base_url"],
                "owners": [D_OWNER],
                "allow": [DAN],
                "groups": [CHANNEL],
                "batch_seconds": 0.05,
            },
            "webhook": {
                "port": hook_port,
                "routes": {
                    "kitchen": {**kitchen, "events": ["hot", "push"], "filters": {"oven.kind": "big"}},
                    "bell": {**bell, "deliver_only": True},
                },
            },
        }
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Everything but the gateway, which the first step starts."""
    model, judge = FamilyModel(), TelegramJudge()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer(ScriptedModel(model.reply)))
        telegram = await stack.enter_async_context(Telegram())
        telegram.judges.append(judge)
        chat = await stack.enter_async_context(Discord())
        chat.person = D_OWNER
        people = await stack.enter_async_context(members(chat, D_OWNER, DAN, D_STRANGER))
        port = _free_port()
        home = stack.enter_context(TempHome.for_server(server.url, more_config=settings(telegram, chat, port)))
        tokens = f"TELEGRAM_BOT_TOKEN={telegram.token}\nDISCORD_BOT_TOKEN={chat.token}\n"
        (home.hermes / ".env").write_text(tokens)
        here = World(home, server, model, telegram, judge, chat, people, port)
        try:
            yield here
        finally:
            await here.end(signal.SIGKILL)


def says(
    person: str, text: str, *expected: str, never: str = "", **more: object
) -> Callable[[World], Awaitable[object]]:
    """Somebody writes on Telegram, and is shown this, and never that."""

    async def do(world: World) -> None:
        shown = await world.tell(text, *expected, person=person, **more)  # type: ignore[arg-type]
        hold(not never or never not in shown, f"{never!r} was shown: {shown!r}")

    return do


def writes(person: str, text: str, *expected: str, channel: str = "") -> Callable[[World], Awaitable[object]]:
    """Somebody writes on Discord, and discord.py shows them this."""

    async def do(world: World) -> None:
        await world.write(person, text, *expected, channel=channel)

    return do


def unheard(text: str, *, person: str, chat: str = "", mention: bool = False) -> Callable[[World], Awaitable[object]]:
    """Somebody writes on Telegram, and nothing comes of it."""
    return lambda world: world.quiet(text, person=person, chat=chat, mention=mention)


def runs(*arguments: str, expected: Sequence[str] = (), code: int = 0) -> Callable[[World], Awaitable[object]]:
    """A command is typed at the machine, and says this."""

    async def do(world: World) -> None:
        said = await world.hermes(*arguments, code=code)
        missing = [one for one in expected if one not in said]
        hold(not missing, f"`hermes {' '.join(arguments)}` does not say {missing}: {said[-600:]}")

    return do


def order(tool: str, /, **arguments: object) -> str:
    """A message that has the model call a tool."""
    return f"DO: {tool} {json.dumps(arguments)}"


def found_tool(tool: str, /, **arguments: object) -> str:
    """The same of a tool that is found by `tool_search`."""
    return order("tool_call", name=tool, arguments=arguments)
