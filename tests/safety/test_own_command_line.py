"""What Hermes' own command line would change is not the model's to do, and no home of Hermes is its to read."""

import json

import pytest

from hermes.safety.paths import OWN_STATE_REASON, Places, list_secret_paths, read_refusal
from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes

SAID = {
    "hermes doctor": "allow",
    "hermes doctor --fix": "ask",
    "hermes -p work status": "allow",
    "hermes -p work config set approvals.mode off": "deny",
    "hermes --profile=work --profile other auth add openrouter": "deny",
    "hermes profile list": "allow",
    "hermes profile use show": "deny",
    "hermes profile delete work --yes": "deny",
    "hermes backup list": "allow",
    "hermes backup show": "deny",
    "hermes backup ./all.zip": "deny",
    "hermes restore list --yes": "deny",
    "hermes update --check": "allow",
    "hermes update --yes": "deny",
    "hermes worktree remove show --force": "deny",
    "hermes mcp add list -- sh -c task": "deny",
    "hermes config set terminal.backend show": "deny",
    "hermes cron add list task --help": "deny",
    "hermes config set --help": "allow",
    "hermes config --json show": "allow",
    "hermes model set list": "deny",
    "hermes model list openrouter": "allow",
    "hermes config -p show set approvals.mode off": "deny",
    "hermes config --profile list set approvals.mode off": "deny",
    "hermes cron -p --help add list task": "deny",
    "hermes config show -p work": "allow",
    "hermes model --provider list gpt": "deny",
    "hermes setup --import show --yes": "deny",
    "hermes setup --help": "allow",
    "hermes trust show": "deny",
    "hermes trust -- --help": "deny",
    "hermes trust --list": "allow",
    "hermes backup -- --help": "deny",
    "hermes update --yes --check": "deny",
    "hermes logs": "ask",
    "hermes -w -z task": "ask",
    "hermes-anew config set approvals.mode off": "deny",
    "uvx hermes-anew@latest config set approvals.mode off": "deny",
    "uv tool run hermes-anew==1.0 config set approvals.mode off": "deny",
    "uvx hermes-anew mcp add list -- sh": "deny",
    "hermes config -p $NAME show": "deny",
    "hermes $NAME config show": "ask",
}


async def test_its_own_verbs() -> None:
    with TempHome({}) as home:
        asked = "".join(json.dumps({"cmd": one}) + "\n" for one in SAID)
        done = await run_hermes(home, "guard", "command", "--jsonl", stdin=asked.encode())
        found = [json.loads(line)["verdict"] for line in done.stdout.splitlines()]
    assert dict(zip(SAID, found, strict=True)) == SAID


@pytest.mark.parametrize("hermes", ["/home/u/.hermes", "/home/u/.hermes/profiles/work", "/data/hermes"])
def test_no_home_of_hermes_is_read_whichever_is_used(hermes: str) -> None:
    places = Places(home="/home/u", hermes=hermes, workspace="/home/u/project")
    for path in ("/home/u/.hermes/.env", "/home/u/.hermes/hermes.db", "/home/u/.hermes/profiles/other/auth.json"):
        assert read_refusal(path, places) == OWN_STATE_REASON
    assert {"/home/u/.hermes", hermes} <= set(list_secret_paths(places))
    assert read_refusal(f"{hermes}/skills/a/SKILL.md", places) == ""
    assert read_refusal("/home/u/.hermes/profiles/other/skills/a/SKILL.md", places) == OWN_STATE_REASON
    inside = Places(home="/home/u", hermes=hermes, workspace="/home/u/.hermes/project")
    assert read_refusal("/home/u/.hermes/project/a.py", inside) == ""
