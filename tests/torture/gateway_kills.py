"""`make gateway-kills`: kill -9 of the gateway under load, at random instants, with platforms that deliver again.

People on every platform write numbered messages, whether the gateway lives or not; the model answers with the numbers
that it was told and has not answered yet. In the end every number stands in exactly one answer that people see (or in
one that is marked as maybe a repetition, where a platform cannot tell), and the numbers of each chat are in order.

With `--delegate` the model gives every third message to a sub-agent in the background, whose report it answers with the
numbers: they come in another order, and every other promise holds for them, too.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from hermes.testing.fake_platform import FakeChat
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.vendors.discord import Fake as Discord
from tests.vendors.email import Fake as Email
from tests.vendors.matrix import Fake as Matrix
from tests.vendors.ntfy import Fake as Ntfy
from tests.vendors.slack import Fake as Slack
from tests.vendors.telegram import Fake as Telegram

FAKES: Mapping[str, Callable[[], FakeChat]] = {
    "discord": Discord,
    "email": Email,
    "matrix": Matrix,
    "ntfy": Ntfy,
    "slack": Slack,
    "telegram": Telegram,
}
_NUMBER = re.compile(r"#(\d+)#")
_REPEATED = "↻"
_TASK = "Your task:"


class Answering:
    """Says back the numbers of what it was told; every now and then behind a tool call, every answer slowly."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def reply(self, request: RecordedRequest) -> Reply:
        told, said = list[str](), set[str]()
        for message in request.messages:
            numbers = _NUMBER.findall(json.dumps(message["content"]))
            if message["role"] == "assistant":
                said.update(numbers)
            elif message["role"] == "user":
                told += numbers
        owed = list(dict.fromkeys(one for one in told if one not in said))
        if request.messages[-1]["role"] == "user" and self._random.random() < 0.3:
            return Say("", calls=(Call("todo", {"todos": []}),))
        words = " ".join(f"#{one}#" for one in owed)
        return Say(
            f"Here is what I was told: {words} and that was all of it.", chunk=9, delivery=ReplyDelivery(pace=0.02)
        )


class Delegating(Answering):
    """Has every third number looked up by a sub-agent in the background, and answers its report with it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.looked_up: set[str] = set()
        """The numbers that sub-agents were given."""

    def reply(self, request: RecordedRequest) -> Reply:
        told, said, given = list[str](), set[str](), list[str]()
        for message in request.messages[1:]:
            content = json.dumps(message["content"])
            numbers = _NUMBER.findall(content)
            if _TASK in content:
                self.looked_up.update(numbers)
                return Say(" ".join(f"#{one}#" for one in numbers), delivery=ReplyDelivery(pace=0.02))
            if message["role"] == "assistant":
                said.update(numbers)
                given += _NUMBER.findall(json.dumps(message.get("tool_calls") or ""))
            else:
                told += numbers
        # Told once more than it was given away: the report has come.
        owed = [one for one in dict.fromkeys(told) if one not in said and (one not in given or told.count(one) > 1)]
        away = next((one for one in owed if int(one) % 3 == 0 and one not in given), "")
        if away:
            task = {"goal": f"look up #{away}#", "background": True}
            return Say("", calls=(Call("tool_call", {"name": "delegate_task", "arguments": task}),))
        words = " ".join(f"#{one}#" for one in owed)
        return Say(f"Here is what I was told: {words} and that was all of it.", chunk=9)


class Campaign:
    """One run: fakes, people, a model, and a gateway that dies again and again."""

    def __init__(self, names: list[str], kills: int, seed: int, *, delegates: bool = False) -> None:
        self.kills, self.random = kills, random.Random(seed)
        self.names = names
        self.delegates = delegates
        self.fakes: dict[str, FakeChat] = {}
        self.said: dict[str, list[str]] = {}
        self.number = 0
        self.first: dict[str, str] = {}
        """The first message, of which all mails are answers: so they are one thread, in order."""
        self.output: list[str] = []

    async def run(self) -> list[str]:
        """What went wrong, a line each."""
        async with AsyncExitStack() as stack:
            model = Delegating(1) if self.delegates else Answering(1)
            server = await stack.enter_async_context(ScriptedServer(ScriptedModel(model.reply), keep=50))
            for name in self.names:
                self.fakes[name] = await stack.enter_async_context(FAKES[name.partition("-")[0]]())
            home = stack.enter_context(self._home(server.url))
            await self._one_life(home, 4.0, patient=True)
            people = asyncio.create_task(self._talk())
            for number in range(self.kills):
                await self._one_life(home, self.random.uniform(0.3, 3.0))
                if number % 20 == 19:
                    print(f"{number + 1} kills, {self.number} messages", flush=True)
            people.cancel()
            await asyncio.wait({people})
            await self._last_life(home)
            await self._integrity(home)
            if isinstance(model, Delegating):
                print(f"{len(model.looked_up)} messages were given to sub-agents", flush=True)
            await self._look_for(home, self._missing())
        return self._problems()

    def _home(self, url: str) -> TempHome:
        accounts = {
            name: {"platform": name.partition("-")[0], "batch_seconds": 0.02, "owners": [fake.person], **fake.options()}
            for name, fake in self.fakes.items()
        }
        return TempHome.for_server(url, more_config={"platforms": accounts})

    async def _talk(self) -> None:
        while True:
            await asyncio.sleep(self.random.expovariate(4.0))
            name = self.random.choice(self.names)
            self.number += 1
            self.said.setdefault(name, []).append(str(self.number))
            text, thread = f"message #{self.number}# please", self.first.get(name, "")
            if name.startswith("email") and thread:
                await self.fakes[name].say(text, thread=thread)
            else:
                self.first[name] = await self.fakes[name].say(text)

    async def _start(self, home: TempHome) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "gateway", "run"),
            cwd=home.cwd,
            env=home.environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _one_life(self, home: TempHome, seconds: float, *, patient: bool = False) -> None:
        process = await self._start(home)
        reader = asyncio.create_task(self._read(process))
        await self._ready(process, patient=patient)
        await asyncio.sleep(seconds)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
        await reader

    async def _ready(self, process: asyncio.subprocess.Process, *, patient: bool) -> None:
        """Sometimes it is killed while it starts; mostly not."""
        if not patient and self.random.random() < 0.2:
            return
        until = time.monotonic() + 15
        mark = len(self.output)
        while time.monotonic() < until and process.returncode is None:
            if any("The gateway runs" in line for line in self.output[mark:]):
                return
            await asyncio.sleep(0.02)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.output.append(line.decode(errors="replace").rstrip())

    async def _last_life(self, home: TempHome) -> None:
        process = await self._start(home)
        reader = asyncio.create_task(self._read(process))
        until = time.monotonic() + 60
        while time.monotonic() < until and self._missing():
            await asyncio.sleep(0.2)
        await asyncio.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            await process.wait()
        await reader

    async def _integrity(self, home: TempHome) -> None:
        done = await home.run(
            sys.executable,
            "-c",
            "import apsw,sys;print(list(apsw.Connection(sys.argv[1]).execute('pragma integrity_check')))",
            str(home.hermes / "hermes.db"),
        )
        if "('ok',)" not in done.stdout:
            self.output.append(f"PROBLEM {done.stdout}{done.stderr}")

    async def _look_for(self, home: TempHome, missing: list[str]) -> None:
        """What the store knows of messages that were never answered."""
        if not missing:
            return
        look = (
            "import apsw, sys\nc = apsw.Connection(sys.argv[1])\n"
            "print(list(c.execute('select platform, state, outcome, count(*) from arrivals group by 1, 2, 3')))\n"
            "print(list(c.execute('select platform, state, error, count(*) from deliveries group by 1, 2, 3')))\n"
            "for n in sys.argv[2:]:\n"
            "    print(n, list(c.execute('select id, state, outcome, turn_id from arrivals where body like ?', (n,))),"
            " list(c.execute('select id, role, turn_id, substr(body, 1, 600) from messages where body like ?', (n,))),"
            " list(c.execute('select id, state, error, message_id from deliveries where body like ?', (n,))))\n"
        )
        numbers = [f"%#{one.rpartition('#')[2]}#%" for one in missing[:5]]
        done = await home.run(sys.executable, "-c", look, str(home.hermes / "hermes.db"), *numbers)
        self.output += [f"STORE {line}" for line in (done.stdout + done.stderr).splitlines()]

    def _answers(self, name: str) -> list[list[str]]:
        return [_NUMBER.findall(one.text) for one in self.fakes[name].shown() if _REPEATED not in one.text]

    def _missing(self) -> list[str]:
        gone = []
        for name, said in self.said.items():
            seen = set(_NUMBER.findall(self.fakes[name].text()))
            gone += [f"{name} #{one}" for one in said if one not in seen]
        return gone

    def _problems(self) -> list[str]:
        wrong = [f"never answered: {one}" for one in self._missing()]
        repeated = 0
        for name, said in self.said.items():
            answered = [one for numbers in self._answers(name) for one in numbers]
            wrong += [f"answered {times} times: {name} #{one}" for one, times in Counter(answered).items() if times > 1]
            known = [one for one in answered if one in set(said)]
            first = list(dict.fromkeys(known))
            if not self.delegates and first != [one for one in said if one in set(first)]:
                wrong.append(f"out of order: {name}: {first}")
            repeated += sum(_REPEATED in one.text for one in self.fakes[name].shown())
            wrong += [f"{name}: {one}" for one in self.fakes[name].refused]
        wrong += [line for line in self.output if line.startswith("PROBLEM") or "Traceback" in line]
        answers = sum(len(self._answers(name)) for name in self.said)
        print(f"{self.kills} kills, {self.number} messages, {answers} answers, {repeated} marked as maybe repeated")
        return wrong


async def main() -> int:
    """Run the campaign; 1 when something was lost, doubled or out of order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--platforms", default=",".join(f"{name}-a" for name in FAKES))
    parser.add_argument("--delegate", action="store_true", help="some messages go to sub-agents in the background")
    parser.add_argument("--show", action="store_true", help="what the gateway said")
    given = parser.parse_args()
    campaign = Campaign(given.platforms.split(","), given.kills, given.seed, delegates=given.delegate)
    wrong = await campaign.run()
    if given.show or wrong:
        for line in campaign.output[-40:]:
            print("  ", line)
    if given.show:
        for name, fake in campaign.fakes.items():
            print(name, [one.text for one in fake.shown()][:12])
    for line in wrong[:40]:
        print("WRONG", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
