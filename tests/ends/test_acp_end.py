"""The three clients of others over `hermes acp`: only where they are installed (`make acp`).

ACP_PYTHON names a Python with `agent-client-protocol`, ACP_NODE a folder with npm's `@agentclientprotocol/sdk` and
`acpx`.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.home import TempHome
from hermes.testing.obedient_model import ObedientModel
from hermes.testing.server import ScriptedServer
from tests.acp.conftest import QUIET

PYTHON = os.environ.get("ACP_PYTHON", "")
NODE = os.environ.get("ACP_NODE", "")
CLIENTS = Path(__file__).parent / "acp_clients"
HERMES = (sys.executable, "-m", "hermes", "acp", "--no-memory")
needs_python = pytest.mark.skipif(not PYTHON, reason="ACP_PYTHON names no Python with agent-client-protocol")
needs_node = pytest.mark.skipif(
    not NODE or not shutil.which("node"), reason="ACP_NODE names no folder of npm's clients"
)


@asynccontextmanager
async def obedient_home() -> AsyncIterator[TempHome]:
    async with ScriptedServer(ObedientModel()) as server:
        with TempHome.for_server(server.url, more_config=QUIET) as home:
            yield home


async def run_client(home: TempHome, *command: str, codes: tuple[int, ...] = (0,)) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=home.cwd, env=home.environ, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    assert process.returncode in codes
    return out.decode()


def check_report(told: Mapping[str, Any]) -> None:
    assert told["version"] == 1
    assert told["options"] == ["mode", "model", "thinking"]
    assert (told["first"], told["plan"], told["asked"]) == ("end_turn", "end_turn", "end_turn")
    assert told["cancelled"] == "cancelled"
    assert (told["values"]["mode"], told["values"]["thinking"]) == ("plan", "high")
    assert told["listed"] is True
    assert told["replayed"] == 4
    assert told["last"] == "end_turn"
    assert told["questions"] == 1
    wanted = {"agent_message_chunk", "available_commands_update", "plan", "session_info_update", "tool_call"}
    wanted |= {"tool_call_update", "usage_update", "user_message_chunk", "config_option_update"}
    assert wanted <= set(told["kinds"])


@needs_python
async def test_the_python_package_drives_it() -> None:
    async with obedient_home() as home:
        said = await run_client(home, PYTHON, str(CLIENTS / "official.py"), str(home.cwd), *HERMES)
    check_report(json.loads(said))


@needs_node
async def test_npms_sdk_drives_it() -> None:
    async with obedient_home() as home:
        script = Path(NODE) / "official.mjs"  # node looks for packages beside the script
        shutil.copyfile(CLIENTS / "official.mjs", script)
        said = await run_client(home, "node", str(script), str(home.cwd), *HERMES)
    told = json.loads(said)
    check_report(told)
    assert (told["left"], told["code"]) == (0, 0)


ACPX_OPTIONS = ("--format", "json", "--json-strict", "--ttl", "1")


async def run_acpx(home: TempHome, *words: str, codes: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    """Run acpx and return what it prints: objects, a line each."""
    acpx = ("node", str(Path(NODE) / "node_modules" / "acpx" / "dist" / "cli.js"))
    options = ("--agent", " ".join(HERMES), "--cwd", str(home.cwd), *ACPX_OPTIONS)
    said = await run_client(home, *acpx, *options, *words, codes=codes)
    return [json.loads(line) for line in said.splitlines()]


@needs_node
async def test_acpx_asks_one_thing() -> None:
    async with obedient_home() as home:
        told = await run_acpx(home, "exec", "SAY: hello")
        updates = [one["params"]["update"] for one in told if one.get("method") == "session/update"]
        said = "".join(one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk")
        assert "hello" in said
        assert any(one.get("result", {}).get("stopReason") == "end_turn" for one in told)
        text = 'DO: terminal {"command": "touch made; git push --force"}'
        told = await run_acpx(home, "--deny-all", "exec", text, codes=(5,))
        assert any(one.get("method") == "session/request_permission" for one in told)
        assert not (home.cwd / "made").exists()


@needs_node
async def test_acpx_goes_on_with_a_session() -> None:
    async with obedient_home() as home:
        (made,) = await run_acpx(home, "sessions", "new")
        told = await run_acpx(home, "prompt", "SAY: hello")
        assert any(one.get("result", {}).get("stopReason") == "end_turn" for one in told)
        (mode,) = await run_acpx(home, "set-mode", "plan")
        assert (mode["modeId"], mode["acpxSessionId"]) == ("plan", made["acpxSessionId"])  # it was loaded, unused
        (option,) = await run_acpx(home, "set", "thinking", "high")
        assert {one["id"]: one["currentValue"] for one in option["configOptions"]}["thinking"] == "high"
        slow = asyncio.create_task(run_acpx(home, "--approve-all", "prompt", 'DO: terminal {"command": "sleep 100"}'))
        for _ in range(50):  # each starts a program, so that time passes
            if (await run_acpx(home, "cancel"))[0]["cancelled"]:
                break
        assert any(one.get("result", {}).get("stopReason") == "cancelled" for one in await slow)
        await run_acpx(home, "sessions", "close")
