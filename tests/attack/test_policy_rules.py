"""The person's own rules: the strictest counts, in a session and in what `hermes guard` says of it."""

import json

from hermes.testing.home import TempHome
from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, ONCE, says, scene
from tests.forked_hermes import run_hermes

RULES = [
    {"pattern": "frobnicate *", "verdict": "deny"},
    {"pattern": "rm -rf kept", "verdict": "ask", "reason": "it is worth a look"},
    {"pattern": "rm -rf *", "verdict": "allow"},
]
REFUSED = (
    "frobnicate get",
    "env frobnicate get",
    'sh -c "frobnicate get"',
    "true && frobnicate get",
    "echo x | xargs frobnicate",
    "k=frobnicate; $k get",
)


async def said(home: TempHome, *commands: str) -> list[str]:
    """What `hermes guard` says of commands, as a program."""
    lines = "".join(json.dumps({"cmd": one}) + "\n" for one in commands)
    done = await run_hermes(home, "guard", "command", "--jsonl", stdin=lines.encode())
    return [json.loads(line)["verdict"] for line in done.stdout.splitlines()]


async def test_guard_and_the_gate_agree_about_own_rules() -> None:
    async with scene("local", config={"approvals": {"rules": RULES}}) as one:
        told = await one.turn(*([Call("terminal", {"command": command})] for command in REFUSED), person=says(ONCE))
        assert all(result.startswith("Not allowed: your rule `frobnicate *`") for result in told), told
        assert not one.asked
        assert await said(one.home, *REFUSED, "echo frobnicate") == ["deny"] * len(REFUSED) + ["allow"]


async def test_a_rule_that_asks_is_stricter_than_one_that_allows() -> None:
    async with scene("local", trusted=True, config={"approvals": {"rules": RULES}}) as one:
        for name in ("kept", "other", "third"):
            (one.home.cwd / name).mkdir()
        await one.run("rm -rf other", person=says(NO))
        assert not one.asked and not (one.home.cwd / "other").exists()
        await one.run("rm -rf kept", person=says(NO))
        assert [event.reason for event in one.asked] == ["it is worth a look"]
        await one.run("rm -rf third && rm -rf kept", person=says(NO))
        assert len(one.asked) == 2 and (one.home.cwd / "third").exists()
        assert await said(one.home, "rm -rf other", "rm -rf kept", "rm -rf a && rm -rf kept") == ["allow", "ask", "ask"]
        await one.run("rm -rf kept", person=says(ONCE))
        assert not (one.home.cwd / "kept").exists()


async def test_an_own_rule_about_a_host_counts_though_another_allows_it() -> None:
    rules = [{"pattern": "connect *", "verdict": "allow"}, {"pattern": "connect bad.example", "verdict": "deny"}]
    async with scene("local", config={"approvals": {"rules": rules}}) as one:
        gate = one.app._live[one.actor.session_id][0].tools.gate
        verdicts = [gate.decide_connection(host, 443, one.context).verdict for host in ("good.example", "bad.example")]
        assert verdicts == ["allow", "deny"]
