"""Kill -9 a process whose sessions have sub-agents with sub-agents of their own, and go on in the next one.

    python -m tests.torture.sub_agent_kills [--roots 20] [--bosses 5] [--leaves 9] [--kills 200] [--seed 1]

Each session at the top delegates to orchestrators, half of them in the background; each of these delegates to leaves,
and each leaf has one effect that must not happen twice. The process is killed at random instants until so many kills
are made, and then may finish. Judged from outside: every sub-agent was asked for once and has ended, every report
stands in what its parent was sent, every effect happened at most once and is missing only where the leaf says that it
does not know, every session that waited for reports from the background was woken once for each call, no turn and no
process is left. Exit 1 when anything is not so.
"""

import argparse
import asyncio
import collections
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

from hermes.core.messages import TextPart
from hermes.core.sub_agents import SubAgentState
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.torture.marked_world import MARK, end_marked, marked, say, stored

CONFIG: dict[str, object] = {
    "command_allowlist": ["*"],
    "agent": {"api_max_retries": 1},
    "terminal": {"backend": "local", "env_passthrough": [MARK]},
    "checkpoints": {"enabled": False},
    "delegation": {"max_total_iterations": 100_000},
}
WOKEN = "[Your sub-agents in the background have ended.]"
EFFECTS = "effects"
JOB = re.compile(r"(ROOT|BOSS|LEAF) (r[\d.]+)")


def is_background(name: str) -> bool:
    """Return whether a session delegates in the background."""
    return int(name.rpartition(".")[2].removeprefix("r")) % 2 == 1


class TreeModel:
    """What each session says follows from its own conversation alone."""

    def __init__(self, bosses: int, leaves: int) -> None:
        self._bosses = bosses
        self._leaves = leaves

    def reply(self, request: RecordedRequest) -> Reply:
        """Return the next step of the session that asks."""
        users = [step.text for step in request.conversation if step.role is StepRole.USER]
        found = JOB.search(users[0]) if users else None
        if found is None:
            return Fail(400, message="no job in this request")
        kind, name = found.groups()
        results = "\n".join(step.text for step in request.conversation if step.role is StepRole.TOOL)
        called = any(step.calls for step in request.conversation)
        slow = ReplyDelivery(pace=0.003)
        if kind == "LEAF":
            if not called:
                command = f"sleep 0.02; echo {name} >> {EFFECTS}; sleep 0.02"
                return Say(calls=(Call("terminal", {"command": command}),), delivery=slow)
            known = "did" if "unknown" not in results.lower() and "interrupt" not in results.lower() else "UNSURE"
            return Say(f"{known} <{name}>", delivery=slow)
        if not called:
            goals = self._bosses if kind == "ROOT" else self._leaves
            below = "BOSS" if kind == "ROOT" else "LEAF"
            tasks = [{"goal": f"{below} {name}.{number}"} for number in range(goals)]
            arguments: dict[str, object] = {"tasks": tasks, "role": "orchestrator" if kind == "ROOT" else "leaf"}
            arguments["background"] = is_background(name)
            return Say(calls=(Call("tool_call", {"name": "delegate_task", "arguments": arguments}),), delivery=slow)
        heard = sorted({*re.findall(r"<(r[\d.]+)>", results + "\n".join(users[1:]))})
        if is_background(name) and WOKEN not in users[-1]:
            return Say(f"BEGUN {name}", delivery=slow)
        return Say(f"{'FINAL' if kind == 'ROOT' else 'heard'} {name}: " + " ".join(f"<{one}>" for one in heard))


async def drive(roots: int, folder: str) -> None:
    """Run in the process that is killed: every session at the top, from where it stands, until its last answer."""
    options = SessionOptions(cwd=folder, allow=("*",), goes_on=True)
    async with App(os.environ, options) as app:

        async def drive_root(number: int) -> None:
            name = f"root{number}"
            actor = await app.open_session(name, create=True)
            team = app.sub_agents.find_team(name)
            if actor.unfinished:
                actor.resume()
            elif not actor.conversation.messages:
                await actor.post(InboundMessage(text=f"ROOT r{number}", cwd=folder))
            await actor.idle()
            while (team := app.sub_agents.find_team(name)) is not None and team.has_unfinished:
                await team.wait_until_finished()
                await actor.idle()
            last = next((one.text for one in reversed(actor.conversation.messages) if one.text), "")
            if not last.startswith("FINAL"):
                say(f"root {number} ended with {last[:80]!r}")

        await asyncio.gather(*(drive_root(number) for number in range(roots)))
    say("finished")


async def run_process(home: TempHome, roots: int, seconds: float | None) -> tuple[bool, str]:
    """Run the driving process, killed after so many seconds; return whether it finished, and what it said."""
    environ = {**home.environ, MARK: "tree:1", "PYTHONPATH": str(Path(__file__).parents[2])}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.torture.sub_agent_kills", "--drive", str(roots), str(home.cwd)),
        cwd=str(home.cwd),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate()
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        said, _ = await process.communicate()
    return process.returncode == 0, said.decode()


async def count_wakes(store: Store, session_id: str) -> int:
    """Return how often reports from the background have come to a session."""
    rows = await store.messages.read(session_id)
    texts = (part.text for row in rows for part in row.message.parts if isinstance(part, TextPart))
    return sum(WOKEN in text for text in texts)


async def judge(home: TempHome, server: ScriptedServer, args: argparse.Namespace) -> list[str]:
    """Return what is wrong at the end."""
    problems: list[str] = []
    store = await Store.open(home.hermes, SystemClock())
    try:
        problems += [f"database: {line}" for line in await store.check_integrity()]
        bosses, leaves = args.bosses, args.leaves
        for number in range(args.roots):
            rows = await store.sub_agents.list_tree(f"root{number}")
            wanted = bosses * (1 + leaves)
            names = collections.Counter(row.task.name for row in rows)
            if len(rows) != wanted or max(names.values(), default=0) > 1:
                problems.append(f"root{number}: {len(rows)} sub-agents instead of {wanted}")
            states = collections.Counter(row.state for row in rows)
            if states[SubAgentState.DONE] != wanted:
                errors = [f"{row.task.name} {row.state}: {row.report.error}" for row in rows if row.report.error]
                problems.append(f"root{number}: {dict(states)} {errors}")
            messages = [row.message for row in await store.messages.read(f"root{number}")]
            finals = [one.text for one in messages if one.text.startswith("FINAL")]
            if len(finals) != 1:
                problems.append(f"root{number}: {len(finals)} last answers")
            for row in (None, *(one for one in rows if one.depth == 1)):
                name = f"r{number}" if row is None else row.task.name.removeprefix("BOSS ")
                woken = await count_wakes(store, f"root{number}" if row is None else row.session_id)
                if woken != is_background(name):
                    problems.append(f"{name}: woken {woken} times")
            lost = [f"r{number}.{b}.{leaf}" for b in range(bosses) for leaf in range(leaves)]
            missing = [one for one in lost if f"<{one}>" not in (finals or [""])[0]]
            if missing:
                problems.append(f"root{number}: lost {missing[:5]} of {len(missing)}")
        effects = collections.Counter((home.cwd / EFFECTS).read_text().split())
        twice = [one for one, count in effects.items() if count > 1]
        problems += [f"effects twice: {twice}"] if twice else []
        answers = [str(body) for (body,) in stored(home, "SELECT body FROM messages WHERE role = 'assistant'")]
        unsure = {one for body in answers for one in re.findall(r"UNSURE <(r[\d.]+)>", body)}
        every = {f"r{r}.{b}.{leaf}" for r in range(args.roots) for b in range(bosses) for leaf in range(leaves)}
        silent = every - {*effects} - unsure
        problems += [f"effects that nobody misses: {sorted(silent)[:5]} of {len(silent)}"] if silent else []
        open_turns = stored(home, "SELECT count(*) FROM turns WHERE ended_at IS NULL")[0][0]
        problems += [f"{open_turns} turns are open"] if open_turns else []
        waiting = stored(home, "SELECT count(*) FROM inbox")[0][0]
        problems += [f"{waiting} messages wait"] if waiting else []
        say(f"{len(effects)} effects, {len(unsure)} leaves that do not know, {len(server.requests)} requests")
    finally:
        await store.close()
    left = list(marked("tree"))
    problems += [f"processes are left: {left}"] if left else []
    return problems


async def campaign(args: argparse.Namespace) -> int:
    """Run everything; return the exit code."""
    chance = random.Random(args.seed)
    os.environ[MARK] = "campaign:0"
    async with ScriptedServer(TreeModel(args.bosses, args.leaves)) as server:
        with TempHome.for_server(server.url, more_config=CONFIG) as home:
            began, kills, finished = time.monotonic(), 0, False
            try:
                while not finished:
                    longest = args.longest if kills < args.kills else None
                    seconds = None if longest is None else chance.uniform(0.3, longest)
                    finished, said = await run_process(home, args.roots, seconds)
                    kills += not finished and seconds is not None
                    if not finished and seconds is None:
                        say(said)
                        return 1
                    if "Traceback" in said or "ended with" in said:
                        say(said)
                problems = await judge(home, server, args)
            finally:
                end_marked("tree")
            count = args.roots * args.bosses * (1 + args.leaves)
            say(f"{count} sub-agents below {args.roots} sessions, {kills} kills, {time.monotonic() - began:.0f} s")
            for problem in problems:
                say(f"PROBLEM {problem}")
            return 1 if problems else 0


def main() -> int:
    """Parse the words and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roots", type=int, default=20)
    parser.add_argument("--bosses", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=9)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--longest", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drive", nargs=2, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        asyncio.run(drive(int(args.drive[0]), args.drive[1]))
        return 0
    return asyncio.run(campaign(args))


if __name__ == "__main__":
    sys.exit(main())
