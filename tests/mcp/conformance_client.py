"""The client under test of the official conformance suite: Hermes' MCP client, driven by the scenario's name.

The suite starts it with the address of its server as the last argument; what it is to do stands in the environment.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.config.settings import Settings
from hermes.core.errors import ToolError
from hermes.execution.supervisor import Supervisors
from hermes.mcp.authorization import McpAuthorization, McpAuthorizationDeps, McpSignInSettings
from hermes.mcp.results import list_resource_lines
from hermes.mcp.rpc import McpRpcError
from hermes.mcp.server import McpServer
from hermes.mcp.server_spec import McpServerSpec
from hermes.mcp.servers import McpEnvironment, McpServers
from hermes.oauth.token_store import TokenStore
from hermes.sessions.mcp_servers import make_oauth_sender

ARGUMENTS: Mapping[str, Mapping[str, object]] = {"add_numbers": {"a": 5, "b": 3}, "valid_tool": {"region": "us"}}
PARALLEL = "test_mrtr_echo_state", "test_mrtr_unrelated"


class Robot:
    """The person of the scenarios: signs in by following the address, and leaves forms as they are."""

    async def show_address(self, url: str) -> None:
        def follow() -> None:
            with urllib.request.urlopen(url, timeout=20) as page:
                page.read()

        await asyncio.to_thread(follow)

    async def read_pasted_address(self) -> str:
        return await asyncio.get_running_loop().create_future()

    async def ask_client_id(self, issuer: str) -> str:
        del issuer
        return ""

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Leave fields as they are, and agree."""
        del question
        kept = [one for one in choices if one.startswith("Leave it")]
        return next(iter([*kept, *choices]), "-")


async def call_tools(server: McpServer, robot: Robot, context: Mapping[str, object]) -> None:
    calls = context.get("toolCalls")
    if isinstance(calls, list):
        wanted = [(one["name"], one["arguments"]) for one in calls]
    else:
        wanted = [(one.sent_name, ARGUMENTS.get(one.sent_name, {})) for one in server.tools]
    tools = {one.sent_name: one for one in server.tools}
    if PARALLEL[0] in tools:
        await asyncio.gather(*(server.call_tool(tools[name], {}, robot) for name in PARALLEL))
        wanted = [one for one in wanted if one[0] not in PARALLEL]
    if "json_schema_echo" in tools:
        focal = next(one for name, one in tools.items() if name != "json_schema_echo")
        wanted = [("json_schema_echo", {"schema": json.loads(focal.schema)})]
    for name, arguments in wanted:
        try:
            result = await server.call_tool(tools[name], arguments, robot)
            sys.stdout.write(f"{name}: {bytes(result).decode()[:200]}\n")
        except McpRpcError as error:
            sys.stdout.write(f"{name}: {error}\n")


async def use_the_rest(server: McpServer, robot: Robot) -> None:
    """Read every resource, and have every prompt made."""
    if server.offer.has_resources:
        found = list_resource_lines(await server.list_resources("", templates=False))
        for line in found[0] if found is not None else ():
            await server.read_resource(line.split()[0], robot)
    for prompt in server.prompts:
        await server.get_prompt(prompt, {}, robot)


async def main(url: str) -> int:
    environ = dict(os.environ)
    version = environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    context = msgspec.json.decode(environ.get("MCP_CONFORMANCE_CONTEXT", "{}"), type=dict[str, object])
    is_document = environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd"
    robot = Robot()
    settings = McpSignInSettings(
        client_id=str(context.get("client_id", "")),
        client_secret=str(context.get("client_secret", "")),
        issuer=str(context.get("issuer", "")),
        metadata_url="https://conformance-test.local/client-metadata.json" if is_document else "",
    )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        deps = McpAuthorizationDeps(
            store=TokenStore(home / "oauth.json", home / "run"),
            send=make_oauth_sender({}, Settings(), url),
            person=robot,
        )
        around = McpEnvironment(
            environ={},
            supervisors=Supervisors({}),
            logs=home,
            known_file=home / "known.json",
            open_authorization=lambda spec: McpAuthorization(spec.name, spec.url, settings, deps),
        )
        # Where the suite names an older revision it counts the question for the newest one as an unknown method.
        protocol = "" if version == "2026-07-28" else version
        servers = McpServers([McpServerSpec(name="suite", url=url, protocol=protocol, timeout=20.0)], around)
        (server,) = servers.servers
        try:
            await server.connect()
            await call_tools(server, robot, context)
            await use_the_rest(server, robot)
        except ToolError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            await servers.close()
            await around.supervisors.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
