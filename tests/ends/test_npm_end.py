"""The official client of npm on the API server: only where `OPENAI_NODE` names a folder with it (`make ends`)."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from hermes.testing.script import Say
from tests.gateway.platforms.api_server_rig import api

FOLDER = os.environ.get("OPENAI_NODE", "")
SCRIPT = """
const OpenAI = require('openai');
(async () => {
  const client = new OpenAI({ apiKey: process.env.KEY, baseURL: process.env.URL, maxRetries: 0 });
  const out = {};
  const messages = [{ role: 'user', content: 'a' }];
  const whole = await client.chat.completions.create({ model: 'hermes', messages });
  out.whole = whole.choices[0].message.content;
  out.tokens = whole.usage.total_tokens > 0;
  const stream = await client.chat.completions.create({ model: 'hermes', messages, stream: true });
  out.streamed = '';
  for await (const chunk of stream) out.streamed += chunk.choices[0]?.delta?.content ?? '';
  const response = await client.responses.create({ model: 'hermes', input: 'b' });
  out.response = response.output_text;
  const events = await client.responses.create(
    { model: 'hermes', input: 'c', previous_response_id: response.id, stream: true });
  out.kinds = [];
  for await (const event of events) out.kinds.push(event.type);
  out.models = (await client.models.list()).data.map((one) => one.id);
  try { await client.chat.completions.create({ model: 'none', messages }); } catch (error) { out.error = error.code; }
  try { await new OpenAI({ apiKey: 'x'.repeat(32), baseURL: process.env.URL, maxRetries: 0 }).models.list(); }
  catch (error) { out.status = error.status; }
  console.log(JSON.stringify(out));
})();
"""


@pytest.mark.skipif(not FOLDER or not shutil.which("node"), reason="OPENAI_NODE names no folder with npm's client")
async def test_npms_client_is_answered() -> None:
    async with api([Say("one"), Say("two pieces", chunk=4), Say("three"), Say("four")]) as it:
        environ = {"PATH": os.environ["PATH"], "NODE_PATH": str(Path(FOLDER) / "node_modules")}
        environ |= {"KEY": it.key, "URL": f"{it.url}/v1"}
        node = await asyncio.create_subprocess_exec("node", "-e", SCRIPT, env=environ, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(60):
            said, _ = await node.communicate()
    told = json.loads(said)
    assert (told["whole"], told["streamed"], told["response"]) == ("one", "two pieces", "three")
    assert told["tokens"] is True
    assert (told["kinds"][0], told["kinds"][-1]) == ("response.created", "response.completed")
    assert "hermes" in told["models"]
    assert (told["error"], told["status"]) == ("model_not_found", 401)
