"""Use seven official MCP servers of npm and PyPI: every tool, resource and prompt of each, over both transports, once
behind a sign-in whose refresh tokens are good for one use.

    python -m tests.mcp.official_servers [--folder /tmp/hermes-mcp]

`make mcp-servers` runs it. The servers and the page that one of them fetches are on this machine.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from hermes.config.settings import Settings
from hermes.core.errors import ToolError
from hermes.core.messages import ToolStatus
from hermes.execution.supervisor import Supervisors
from hermes.mcp.authorization import McpAuthorization, McpAuthorizationDeps, McpSignInSettings
from hermes.mcp.prompts import format_prompt_messages
from hermes.mcp.results import list_resource_lines, read_resource_output, to_tool_output
from hermes.mcp.rpc import McpRpcError
from hermes.mcp.server import McpServer
from hermes.mcp.server_spec import McpServerSpec
from hermes.mcp.servers import McpEnvironment, McpServers
from hermes.oauth.token_store import TokenStore
from hermes.sessions.mcp_servers import make_oauth_sender
from tests.mcp.conformance_client import Robot
from tests.mcp.node_tools import MissingToolError, install_node, install_npm, install_python
from tests.vendors.oauth_server import fake_oauth_server

NPM = tuple(
    f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem", "memory", "sequential-thinking")
)
PYPI = ("mcp-server-fetch", "mcp-server-git", "mcp-server-time")
Call = tuple[str, Mapping[str, object]]


class Case(Struct, kw_only=True):
    """A server, how it is started, and a call for each of its tools."""

    name: str
    spec: McpServerSpec
    calls: Sequence[Call]
    prompt_arguments: Mapping[str, str] = {}
    fails: Sequence[str] = ()
    """Tools whose call is meant to fail."""


class Score(Struct):
    """What was used of a server, of how much, and what went wrong."""

    version: str = ""
    tools: tuple[int, int] = (0, 0)
    resources: tuple[int, int] = (0, 0)
    templates: int = 0
    prompts: tuple[int, int] = (0, 0)
    problems: tuple[str, ...] = ()


def everything_calls(page: str) -> list[Call]:
    return [
        ("echo", {"message": "hi"}),
        ("get-annotated-message", {"messageType": "success", "includeImage": True}),
        ("get-env", {}),
        ("get-resource-links", {"count": 2}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-sum", {"a": 1, "b": 2}),
        ("get-tiny-image", {}),
        ("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain;base64,aGk=", "outputType": "resource"}),
        ("simulate-research-query", {"topic": "bees"}),
        ("toggle-simulated-logging", {}),
        ("toggle-subscriber-updates", {}),
        ("trigger-elicitation-request", {}),
        ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
        ("trigger-url-elicitation", {"url": page, "elicitationId": "one"}),
    ]


def filesystem_calls(folder: Path) -> list[Call]:
    one, two, picture = folder / "a.txt", folder / "b.txt", folder / "p.png"
    return [
        ("create_directory", {"path": str(folder / "sub")}),
        ("write_file", {"path": str(one), "content": "one\n"}),
        ("edit_file", {"path": str(one), "edits": [{"oldText": "one", "newText": "two"}]}),
        ("directory_tree", {"path": str(folder)}),
        ("get_file_info", {"path": str(one)}),
        ("list_allowed_directories", {}),
        ("list_directory", {"path": str(folder)}),
        ("list_directory_with_sizes", {"path": str(folder)}),
        ("read_file", {"path": str(one)}),
        ("read_text_file", {"path": str(one)}),
        ("read_multiple_files", {"paths": [str(one)]}),
        ("read_media_file", {"path": str(picture)}),
        ("search_files", {"path": str(folder), "pattern": "*.txt"}),
        ("move_file", {"source": str(one), "destination": str(two)}),
    ]


def memory_calls() -> list[Call]:
    bee = {"name": "Bee", "entityType": "animal", "observations": ["flies"]}
    link = {"from": "Bee", "to": "Hive", "relationType": "lives in"}
    return [
        ("create_entities", {"entities": [bee, {"name": "Hive", "entityType": "place", "observations": []}]}),
        ("create_relations", {"relations": [link]}),
        ("add_observations", {"observations": [{"entityName": "Bee", "contents": ["stings"]}]}),
        ("read_graph", {}),
        ("search_nodes", {"query": "Bee"}),
        ("open_nodes", {"names": ["Bee"]}),
        ("delete_observations", {"deletions": [{"entityName": "Bee", "observations": ["flies"]}]}),
        ("delete_relations", {"relations": [link]}),
        ("delete_entities", {"entityNames": ["Bee"]}),
    ]


def git_calls(repository: Path) -> list[Call]:
    where = {"repo_path": str(repository)}
    return [
        ("git_status", where),
        ("git_add", {**where, "files": ["a.txt"]}),
        ("git_diff_staged", where),
        ("git_commit", {**where, "message": "second"}),
        ("git_diff_unstaged", where),
        ("git_log", where),
        ("git_show", {**where, "revision": "HEAD"}),
        ("git_create_branch", {**where, "branch_name": "other"}),
        ("git_branch", {**where, "branch_type": "local"}),
        ("git_checkout", {**where, "branch_name": "other"}),
        ("git_diff", {**where, "target": "HEAD~1"}),
        ("git_reset", where),
    ]


TIME_CALLS: Sequence[Call] = [
    ("get_current_time", {"timezone": "Europe/Berlin"}),
    ("convert_time", {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Shanghai"}),
]
THOUGHT: Sequence[Call] = [
    ("sequentialthinking", {"thought": "I think", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1})
]


async def use_server(server: McpServer, case: Case) -> Score:
    """Use all that a server offers."""
    robot, problems, done = Robot(), list[str](), set[str]()
    tools = {one.sent_name: one for one in server.tools}
    for name, arguments in case.calls:
        try:
            output = to_tool_output(await server.call_tool(tools[name], arguments, robot), server.spec.name)
        except (McpRpcError, ToolError) as error:
            problems.append(f"{name}: {error}")
            continue
        if output.status is ToolStatus.OK:
            done.add(name)
        else:
            problems.append(f"{name}: {output.text[:200]}")
    score = Score(version=server.offer.version, tools=(len(done), len(tools)))
    if server.offer.has_resources:
        await read_resources(server, score, problems)
    prompts = 0
    for prompt in server.prompts:
        given = {one.name: case.prompt_arguments.get(one.name, "1") for one in prompt.arguments if one.is_required}
        try:
            result = await server.get_prompt(prompt, given, robot)
            prompts += bool(format_prompt_messages(result, server.spec.name, prompt.name))
        except (McpRpcError, ToolError) as error:
            problems.append(f"/{prompt.name}: {error}")
    score.prompts = prompts, len(server.prompts)
    score.problems = tuple(problems)
    return score


async def read_resources(server: McpServer, score: Score, problems: list[str]) -> None:
    found: list[str] = []
    cursor = ""
    while (page := list_resource_lines(await server.list_resources(cursor, templates=False))) is not None:
        found += [line.split()[0] for line in page[0]]
        cursor = page[1]
        if not cursor:
            break
    read = 0
    for uri in found:
        try:
            read += bool(read_resource_output(await server.read_resource(uri), server.spec.name).text)
        except (McpRpcError, ToolError) as error:
            problems.append(f"{uri}: {error}")
    try:
        templates = list_resource_lines(await server.list_resources("", templates=True))
    except McpRpcError:
        templates = None
    score.resources, score.templates = (read, len(found)), len(templates[0]) if templates is not None else 0


async def run_case(case: Case, folder: Path, authorization: McpAuthorization | None = None) -> Score:
    environ = {**os.environ, "HOME": str(folder)}
    around = McpEnvironment(
        environ=environ,
        supervisors=Supervisors(os.environ),
        logs=folder / "logs",
        known_file=folder / "known.json",
        open_authorization=lambda _: authorization,
    )
    servers = McpServers([case.spec], around)
    (server,) = servers.servers
    try:
        await server.connect()
        return await use_server(server, case)
    except ToolError as error:
        return Score(problems=(str(error),))
    finally:
        await servers.close()
        await around.supervisors.close()


@asynccontextmanager
async def serving_page() -> AsyncIterator[str]:
    """Serve a page on this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><body><article><h1>Bees</h1><p>Bees fly.</p></article></body></html>"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@asynccontextmanager
async def serving_http(node: Path, script: Path, folder: Path) -> AsyncIterator[str]:
    """Run server-everything over streamable HTTP."""
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    with (folder / "http.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(node), str(script), "streamableHttp", env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


def make_workspace(folder: Path) -> Path:
    """Return a folder with a picture, and a repository below it with a change."""
    repository = folder / "repository"
    repository.mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 32)
    environ = {**os.environ, "HOME": str(folder)}
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "A"]):
        subprocess.run(["git", *words], cwd=repository, env=environ, check=True)
    (repository / "a.txt").write_text("one\n")
    subprocess.run(["git", "add", "a.txt"], cwd=repository, env=environ, check=True)
    subprocess.run(["git", "commit", "-qm", "first"], cwd=repository, env=environ, check=True)
    (repository / "a.txt").write_text("two\n")
    return repository


def list_cases(node: Path, modules: Path, programs: Path, folder: Path, page: str) -> list[Case]:
    repository, files = make_workspace(folder), folder / "files"

    def of_npm(name: str, *arguments: str, **env: str) -> McpServerSpec:
        script = modules / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
        return McpServerSpec(name=name, command=str(node), args=(str(script), *arguments), folder=str(folder), env=env)

    def of_pypi(name: str, *arguments: str) -> McpServerSpec:
        program = str(programs / f"mcp-server-{name}")
        return McpServerSpec(name=name, command=program, args=arguments, folder=str(folder))

    prompts = {"url": page, "resourceType": "Text", "department": "Sales", "name": "Bob"}
    memory = str(folder / "memory.json")
    return [
        Case(
            name="everything",
            spec=of_npm("everything", "stdio"),
            calls=everything_calls(page),
            prompt_arguments=prompts,
        ),
        Case(name="filesystem", spec=of_npm("filesystem", str(files)), calls=filesystem_calls(files)),
        Case(name="memory", spec=of_npm("memory", MEMORY_FILE_PATH=memory), calls=memory_calls()),
        Case(name="sequential-thinking", spec=of_npm("sequential-thinking"), calls=THOUGHT),
        Case(
            name="fetch",
            spec=of_pypi("fetch", "--ignore-robots-txt", "--allow-private-ips"),
            calls=[("fetch", {"url": page, "raw": True})],
            prompt_arguments=prompts,
        ),
        Case(name="git", spec=of_pypi("git", "--repository", str(repository)), calls=git_calls(repository)),
        Case(name="time", spec=of_pypi("time"), calls=TIME_CALLS),
    ]


async def run_behind_sign_in(url: str, case: Case, folder: Path) -> tuple[Score, str]:
    """Use a server behind a sign-in: once signed in anew, once with a token that has ended meanwhile."""
    async with fake_oauth_server(url) as fake:
        address = f"{fake.url}/mcp"
        spec = McpServerSpec(name="signed-in", url=address)
        store = TokenStore(folder / "oauth.json", folder / "run")
        send = make_oauth_sender({}, Settings(), address)
        person = McpAuthorizationDeps(store=store, send=send, person=Robot())
        nobody = McpAuthorizationDeps(store=store, send=send)
        settings = McpSignInSettings()
        renamed = Case(name=case.name, spec=spec, calls=case.calls, prompt_arguments=case.prompt_arguments)
        first = await run_case(renamed, folder, McpAuthorization(spec.name, address, settings, person))
        fake.expire_access_tokens()
        second = await run_case(renamed, folder, McpAuthorization(spec.name, address, settings, nobody))
        score = second if not first.problems else first
        said = f"{fake.sign_ins} sign-in, {fake.refreshes} refresh, {fake.reuses} reused tokens"
        return score, said


def print_row(name: str, transport: str, score: Score, remark: str = "") -> bool:
    pairs = score.tools, score.resources, score.prompts
    is_whole = not score.problems and all(done == there for done, there in pairs)
    shown = " ".join(f"{done}/{there}" for done, there in pairs)
    sys.stdout.write(
        f"{'✓' if is_whole else '✗'} {name:<20} {transport:<12} {score.version:<11} "
        f"tools, resources, prompts: {shown}; {score.templates} templates {remark}\n"
    )
    for problem in score.problems:
        sys.stdout.write(f"    {problem}\n")
    return is_whole


async def run_all(node: Path, modules: Path, programs: Path) -> bool:
    results: list[bool] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        page = await stack.enter_async_context(serving_page())
        cases = list_cases(node, modules, programs, folder, page)
        results += [print_row(case.name, "stdio", await run_case(case, folder)) for case in cases]
        everything = cases[0]
        script = modules / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
        url = await stack.enter_async_context(serving_http(node, script, folder))
        case = Case(
            name=everything.name,
            spec=McpServerSpec(name="everything", url=url),
            calls=everything.calls,
            prompt_arguments=everything.prompt_arguments,
        )
        results.append(print_row(case.name, "HTTP", await run_case(case, folder)))
        score, remark = await run_behind_sign_in(url, case, folder)
        results.append(print_row(case.name, "HTTP, OAuth", score, f"({remark})"))
    return all(results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/hermes-mcp"))
    args = parser.parse_args()
    try:
        node = install_node(args.folder) / "node"
        modules = install_npm(args.folder, NPM)
        programs = install_python(args.folder, PYPI)
    except (MissingToolError, OSError, subprocess.TimeoutExpired) as error:
        sys.stdout.write(f"skipped: {error}\n")
        return 0
    return 0 if asyncio.run(run_all(node, modules, programs)) else 1


if __name__ == "__main__":
    sys.exit(main())
