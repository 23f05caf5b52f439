"""Drives an agent with the official Python package, whose models check every message, and prints what has come as JSON.

It runs where the package is installed: `official.py FOLDER COMMAND ...`.
"""

import asyncio
import json
import os
import sys
from collections import Counter

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

PLAN = 'DO: todo {"todos": [{"content": "look", "status": "in_progress"}]}'


class Recorder(Client):
    """Counts updates, and says yes to every question."""

    def __init__(self):
        self.kinds = Counter()
        self.texts = []
        self.asked = 0

    async def session_update(self, session_id, update, **more):
        self.kinds[update.session_update] += 1
        if text := getattr(getattr(update, "content", None), "text", None):
            self.texts.append(text)

    async def request_permission(self, options, session_id, tool_call, **more):
        self.asked += 1
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    async def read_text_file(self, path, session_id, line=None, limit=None, **more):
        with open(path) as file:
            return ReadTextFileResponse(content=file.read())


async def drive(folder, command):
    recorder, out = Recorder(), {}
    async with spawn_agent_process(recorder, *command, env=dict(os.environ)) as (agent, process):
        able = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        begun = await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=able)
        out["version"] = begun.protocol_version
        made = await agent.new_session(cwd=folder, mcp_servers=[])
        session = made.session_id
        out["options"] = [one.id for one in made.config_options]
        out["first"] = (await agent.prompt(session_id=session, prompt=[text_block("SAY: hello")])).stop_reason
        out["plan"] = (await agent.prompt(session_id=session, prompt=[text_block(PLAN)])).stop_reason
        risky = 'DO: terminal {"command": "git push --force"}'
        out["asked"] = (await agent.prompt(session_id=session, prompt=[text_block(risky)])).stop_reason
        slow = asyncio.ensure_future(
            agent.prompt(session_id=session, prompt=[text_block('DO: terminal {"command": "sleep 100"}')])
        )
        await asyncio.sleep(1.5)  # the command is under way by then, or is about to be
        await agent.cancel(session_id=session)
        out["cancelled"] = (await slow).stop_reason
        await agent.set_session_mode(session_id=session, mode_id="plan")
        now = await agent.set_config_option(session_id=session, config_id="thinking", value="high")
        out["values"] = {one.id: one.current_value for one in now.config_options}
        out["listed"] = [one.session_id for one in (await agent.list_sessions(cwd=folder)).sessions] == [session]
        await agent.close_session(session_id=session)
        before = recorder.kinds["user_message_chunk"]
        await agent.load_session(cwd=folder, mcp_servers=[], session_id=session)
        out["replayed"] = recorder.kinds["user_message_chunk"] - before
        await agent.close_session(session_id=session)
        await agent.resume_session(cwd=folder, session_id=session, mcp_servers=[])
        out["last"] = (await agent.prompt(session_id=session, prompt=[text_block("SAY: bye")])).stop_reason
    out |= {"kinds": sorted(recorder.kinds), "questions": recorder.asked, "code": process.returncode}
    sys.stdout.write(json.dumps(out))


asyncio.run(drive(sys.argv[1], sys.argv[2:]))
