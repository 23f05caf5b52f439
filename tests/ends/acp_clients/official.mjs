// Drives an agent with npm's official SDK, whose schemas check every message, and prints what has come as JSON.
// It runs where the SDK can be found: `node official.mjs FOLDER COMMAND ...`.
import * as acp from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [folder, ...command] = process.argv.slice(2);
const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const kinds = {};
let questions = 0;
const app = acp
  .client()
  .onRequest("session/request_permission", ({ params }) => {
    questions += 1;
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification("session/update", ({ params }) => {
    kinds[params.update.sessionUpdate] = (kinds[params.update.sessionUpdate] ?? 0) + 1;
  });
const out = {};
await app.connectWith(stream, async (agent) => {
  const ask = (method, params) => agent.request(method, params);
  const prompt = async (sessionId, text) =>
    (await ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] })).stopReason;
  const begun = await ask("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  out.version = begun.protocolVersion;
  const made = await ask("session/new", { cwd: folder, mcpServers: [] });
  const sessionId = made.sessionId;
  out.options = made.configOptions.map((one) => one.id);
  out.first = await prompt(sessionId, "SAY: hello");
  out.plan = await prompt(sessionId, 'DO: todo {"todos": [{"content": "look", "status": "in_progress"}]}');
  out.asked = await prompt(sessionId, 'DO: terminal {"command": "git push --force"}');
  const slow = prompt(sessionId, 'DO: terminal {"command": "sleep 100"}');
  await new Promise((done) => setTimeout(done, 1500));
  await agent.notify("session/cancel", { sessionId });
  out.cancelled = await slow;
  await ask("session/set_mode", { sessionId, modeId: "plan" });
  const now = await ask("session/set_config_option", { sessionId, configId: "thinking", value: "high" });
  out.values = Object.fromEntries(now.configOptions.map((one) => [one.id, one.currentValue]));
  const listed = (await ask("session/list", { cwd: folder })).sessions;
  out.listed = listed.length === 1 && listed[0].sessionId === sessionId;
  await ask("session/close", { sessionId });
  const before = kinds.user_message_chunk ?? 0;
  await ask("session/load", { cwd: folder, mcpServers: [], sessionId });
  out.replayed = (kinds.user_message_chunk ?? 0) - before;
  await ask("session/close", { sessionId });
  await ask("session/resume", { cwd: folder, mcpServers: [], sessionId });
  out.last = await prompt(sessionId, "SAY: bye");
  await ask("session/delete", { sessionId });
  out.left = (await ask("session/list", { cwd: folder })).sessions.length;
});
out.kinds = Object.keys(kinds).sort();
out.questions = questions;
child.stdin.end();
out.code = await new Promise((done) => child.on("exit", done));
console.log(JSON.stringify(out));
