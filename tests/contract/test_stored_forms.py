"""What an older Hermes has stored, and says over its socket, is read and written by today's as it was then.

`tests/corpus` holds the recorded bytes; `kinds.py` there names today's types. A line that fails to come back unchanged
is a broken home of somebody's: mend the type, not the line. What is new gets lines of its own; the test prints them.
"""

import ast
import asyncio
import base64
import enum
import importlib
import json
import pkgutil
import re
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from msgspec import Struct, inspect

import hermes
import hermes.acp
import hermes.admin.mcp
import hermes.admin.models.local_servers
import hermes.browser
import hermes.cli
import hermes.client.client
import hermes.config.other_agents
import hermes.execution
import hermes.gateway.platforms.api_server.mcp_endpoint
import hermes.gateway.platforms.discord
import hermes.gateway.platforms.matrix
import hermes.gateway.platforms.ntfy
import hermes.gateway.platforms.slack
import hermes.gateway.platforms.telegram
import hermes.hooks.shell_answers
import hermes.ipc.rpc_peer
import hermes.mcp.definitions
import hermes.mcp.elicitation
import hermes.mcp.handshake
import hermes.mcp.input_requests
import hermes.mcp.prompts
import hermes.mcp.results
import hermes.mcp.rpc
import hermes.mcp.server
import hermes.mcp.tools
import hermes.media
import hermes.memory.guarded_provider
import hermes.plugin_host
import hermes.providers
import hermes.sessions.editors
import hermes.skills.section
import hermes.speech
import hermes.testing
import hermes.tools.builtin
import hermes.tools.registry
import hermes.web
from hermes.admin.backup import _FormatNumber as ManifestNumber
from hermes.core.errors import NotFoundError
from hermes.core.events import ApprovalAsked, Level
from hermes.core.outcomes import AnswerScope
from hermes.ipc.frames import AttachedFrame, AttachFrame, ErrorFrame, error_frame, error_from_frame
from hermes.ipc.remote_session import RemoteSession, connect_socket
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.case_tables import each_case
from tests.corpus.kinds import ENUMS, KINDS, OPTIONS, PACKED, UNIONS
from tests.corpus.values import structs_and_enums, union_members, values_of
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.ntfy import Fake

CORPUS = Path(__file__).parent.parent / "corpus"
Line = dict[str, str]


@cache
def corpus() -> tuple[Line, ...]:
    return tuple(json.loads(line) for line in (CORPUS / "kinds.jsonl").read_bytes().splitlines())


def types() -> dict[str, object]:
    """Return today's type of every kind but the enumerations."""
    found: dict[str, object] = {**KINDS, **OPTIONS, **PACKED}
    for family, union in UNIONS.items():
        found |= {f"{family}.{tag}": union for tag in union_members(union)}
    return found


def decoded(line: Line) -> object:
    of = UNIONS.get(line["kind"].partition(".")[0]) or types()[line["kind"]]
    if "base64" in line:
        return msgspec.msgpack.decode(base64.b64decode(line["base64"]), type=of)
    return msgspec.json.decode(line["bytes"], type=of)


def encoded(kind: str, value: object) -> Line:
    if kind in PACKED:
        return {"kind": kind, "base64": base64.b64encode(msgspec.msgpack.encode(value)).decode()}
    return {"kind": kind, "bytes": msgspec.json.encode(value).decode()}


@each_case("kind", sorted({line["kind"] for line in corpus() if line["kind"] not in ENUMS}))
def test_a_stored_value_comes_back_as_the_same_bytes(kind: str) -> None:
    assert kind in types(), f"nothing reads {kind!r} any more"
    for line in corpus():
        if line["kind"] == kind:
            assert encoded(kind, decoded(line)) == line


@each_case("kind", sorted(ENUMS))
def test_an_enumeration_still_has_the_values_that_were_stored(kind: str) -> None:
    (line,) = (line for line in corpus() if line["kind"] == kind)
    stored = msgspec.json.decode(line["bytes"], type=list[ENUMS[kind]])
    assert set(stored) == set(ENUMS[kind]), f"give the line of {kind!r} in kinds.jsonl its new values"


def walked(value: object) -> Iterator[Struct | enum.Enum]:
    """Yield every struct and member of an enumeration in a value."""
    if isinstance(value, Struct):
        yield value
        value = [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, enum.Enum):
        yield value
    elif isinstance(value, Mapping):
        yield from walked([*value.keys(), *value.values()])
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            yield from walked(inner)


def set_fields(one: Struct) -> set[str]:
    """Return the fields of a struct that differ from their defaults."""
    info = inspect.type_info(type(one))
    assert isinstance(info, inspect.StructType)
    found = set()
    for field in info.fields:
        made = field.default_factory
        default = made() if made is not msgspec.NODEFAULT else field.default
        if field.required or getattr(one, field.name) != default:
            found.add(field.name)
    return found


@cache
def seen() -> tuple[dict[type, set[str]], set[enum.Enum]]:
    """Return the fields of each struct that stand in the corpus, and the members of enumerations."""
    fields: dict[type, set[str]] = defaultdict(set)
    members: set[enum.Enum] = {member for of in ENUMS.values() for member in of}
    for line in corpus():
        if line["kind"] in ENUMS:
            continue
        try:
            value = decoded(line)
        except msgspec.MsgspecError:
            continue  # the test of this kind says so
        for one in walked(value):
            if isinstance(one, Struct):
                fields[type(one)] |= set_fields(one)
            else:
                members.add(one)
    return fields, members


def wanting(kind: str, of: object) -> str:
    """Say which lines have to be added for a kind."""
    known = [line for line in corpus() if line["kind"] == kind]
    fresh = [line for line in (encoded(kind, value) for value in values_of(of)) if line not in known]
    return "add to tests/corpus/kinds.jsonl:\n" + "\n".join(json.dumps(line, ensure_ascii=False) for line in fresh)


@each_case("kind", sorted(types()))
def test_every_kind_field_and_choice_has_a_line(kind: str) -> None:
    family, _, tag = kind.partition(".")
    of = union_members(UNIONS[family])[tag] if family in UNIONS else types()[kind]
    assert any(line["kind"] == kind for line in corpus()), wanting(kind, of)
    fields, members = seen()
    for found, info in structs_and_enums(of):
        if isinstance(info, inspect.StructType):
            missing = {field.name for field in info.fields} - fields[found]
            assert not missing, f"{found.__name__}: {missing}; {wanting(kind, of)}"
        elif issubclass(found, enum.Enum):
            assert set(found) <= members, f"{found.__name__} needs a kind in ENUMS of tests/corpus/kinds.py"


FOREIGN = (
    hermes.acp,
    hermes.admin.mcp,
    hermes.admin.models.local_servers,
    hermes.browser,
    hermes.cli,
    hermes.client.client,
    hermes.config.other_agents,
    hermes.execution,
    hermes.gateway.platforms.api_server.mcp_endpoint,
    hermes.gateway.platforms.discord,
    hermes.gateway.platforms.matrix,
    hermes.gateway.platforms.ntfy,
    hermes.gateway.platforms.slack,
    hermes.gateway.platforms.telegram,
    hermes.hooks.shell_answers,
    hermes.ipc.rpc_peer,
    hermes.mcp.definitions,
    hermes.mcp.elicitation,
    hermes.mcp.handshake,
    hermes.mcp.input_requests,
    hermes.mcp.prompts,
    hermes.mcp.results,
    hermes.mcp.rpc,
    hermes.mcp.server,
    hermes.mcp.tools,
    hermes.media,
    hermes.memory.guarded_provider,
    hermes.plugin_host,
    hermes.providers,
    hermes.sessions.editors,
    hermes.skills.section,
    hermes.speech,
    hermes.testing,
    hermes.tools.builtin,
    hermes.tools.registry,
    hermes.web,
)
"""What they decode was written by other programs, or by this process a moment ago, or comes with Hermes."""


def modules() -> Iterator[ModuleType]:
    """Yield every module that may read what Hermes has written."""
    spared = tuple(one.__name__ for one in FOREIGN)
    for found in pkgutil.walk_packages(hermes.__path__, "hermes."):
        name = found.name
        if not any(name == one or name.startswith(f"{one}.") for one in spared) and not name.endswith("__main__"):
            yield importlib.import_module(name)


def read_types(module: ModuleType) -> Iterator[object]:
    """Yield the types that a module decodes, as far as its source names them."""
    assert module.__file__ is not None
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = [word.value for word in node.keywords if word.arg == "type" and node.func.attr == "decode"]
        for one in [*given, *(node.args[:1] if node.func.attr == "Decoder" else ())]:
            try:
                yield eval(ast.unparse(one), {**vars(module)})
            except NameError:
                continue  # a parameter's name: who calls it names the type


def test_whatever_hermes_reads_back_is_in_the_corpus() -> None:
    covered = {found for of in types().values() for found, _ in structs_and_enums(of)} | {ManifestNumber}
    left = {
        f"{module.__name__}: {found.__name__}"
        for module in modules()
        for of in read_types(module)
        for found, info in structs_and_enums(of)
        if isinstance(info, inspect.StructType) and found not in covered
    }
    assert not left, "give each a kind in tests/corpus/kinds.py"


# A home of the version before.

URL = re.compile(r"base_url: \S+")


@asynccontextmanager
async def old_home(*replies: Reply) -> AsyncIterator[tuple[TempHome, ScriptedServer]]:
    """Unpack the recorded home beside a model that answers so."""
    async with ScriptedServer(list(replies)) as server:
        with TempHome() as home:
            with tarfile.open(CORPUS / "home.tar.gz") as packed:
                # Python 3.11 has the filter from its fourth patch release on, and Debian 12 has the second.
                packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                packed.extractall(home.hermes)
            config = home.hermes / "config.yaml"
            config.write_text(URL.sub(f"base_url: {server.url}", config.read_text()))
            yield home, server


async def run(home: TempHome, *arguments: str) -> ProgramResult:
    done = await run_hermes(home, *arguments)
    assert done.code == 0, done
    return done


def database(home: TempHome) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{home.hermes / 'hermes.db'}?mode=ro", uri=True)


async def test_an_old_session_goes_on_with_the_bytes_that_were_sent() -> None:
    sent = (CORPUS / "request.json").read_bytes().strip()
    async with old_home(Say("As before.")) as (home, server):
        async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
            actor = await app.open_session("before")
            ended = await actor.post(InboundMessage(text="And today?", cwd=str(home.cwd)))
        assert ended.text == "As before."
        (fresh,) = server.requests
        before = RecordedRequest("POST", fresh.path, fresh.headers, sent, 0)
        assert check_prefixes([before, fresh]) == 1
        assert len(fresh.messages) == len(before.messages) + 2
        assert sent.endswith(b"]}") and fresh.body.startswith(sent[:-2] + b",")
        with closing(database(home)) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            reasons = opened.execute("SELECT begin_reason FROM epochs WHERE session_id = 'before'").fetchall()
            assert len(reasons) == 1, reasons


async def test_a_question_that_waited_is_asked_again_and_its_turn_ends() -> None:
    async with old_home(Say("Not reset.")) as (home, server):
        async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
            actor = await app.open_session("waiting")
            actor.approvals.can_ask = True
            asked: list[ApprovalAsked] = []

            def refuse(event: object) -> None:
                if isinstance(event, ApprovalAsked):
                    asked.append(event)
                    actor.approvals.answer(event.approval_id, scope=AnswerScope.DENY, by="person")

            actor.subscribe(refuse)
            turn = actor.resume()
            assert turn is not None
            assert (await turn).text == "Not reset."
        assert [one.subject for one in asked] == ["git reset --hard"]
        assert server.requests[0].last_user_text.startswith("reset it")


@pytest.mark.slow
async def test_verbs_read_what_an_old_home_holds() -> None:
    async with old_home() as (home, _):
        (job,) = json.loads((await run(home, "cron", "list", "--json")).stdout)
        assert (job["name"], job["spec"]["catch_up"], job["spec"]["jitter"]) == ("morning", "last", 60)
        assert "two quays" in (await run(home, "memory", "list")).stdout
        assert "Knows Ines" in (await run(home, "memory", "pending")).stdout
        assert "before" in (await run(home, "sessions", "list")).stdout
        assert "OPENROUTER_API_KEY" in (await run(home, "auth", "list")).stdout
        assert "build" in (await run(home, "webhook", "list")).stdout
        await run(home, "config", "check")
        await run(home, "backup")


async def tables(home: TempHome) -> object:
    """Return the columns of a home's database and its version, once today's program has opened it."""
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        await app.open_session("fresh", create=True)
    with closing(database(home)) as opened:
        rows = opened.execute(
            "SELECT t.name, c.name, c.type, c.pk FROM sqlite_master t, pragma_table_info(t.name) c"
            " WHERE t.type = 'table' ORDER BY 1, c.cid"
        ).fetchall()
        return rows, [opened.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")]


async def test_an_old_database_has_the_tables_of_a_new_one() -> None:
    async with old_home() as (home, server):
        with TempHome.for_server(server.url) as fresh:
            assert await tables(home) == await tables(fresh)


def parameters(schema: object, path: str = "") -> set[str]:
    """Return the names and choices of a tool's parameters, whatever is said about them."""
    found: set[str] = set()
    if isinstance(schema, dict):
        for name in schema.get("properties", {}):
            found.add(f"{path}.{name}")
        found |= {f"{path}={choice}" for choice in schema.get("enum", ())}
        for name, inner in schema.items():
            found |= parameters(inner, path if name in ("properties", "items", "anyOf") else f"{path}.{name}")
    elif isinstance(schema, list):
        found = {one for inner in schema for one in parameters(inner, path)}
    return found


async def test_tools_take_the_parameters_that_old_sessions_were_told_of() -> None:
    sent = json.loads((CORPUS / "request.json").read_bytes())
    told = {one["function"]["name"]: parameters(one["function"]["parameters"]) for one in sent["tools"]}
    async with old_home() as (home, _):
        async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
            live = app.live_session(await app.open_session("fresh", create=True))
            assert live is not None
            # A tool that is found by a search today is called by its name all the same.
            schemas = {one.name: json.loads(one.schema.parameters) for one in live.tools.toolbox}
        today = {name: parameters(schema) for name, schema in schemas.items()}
    assert {name: names - today.get(name, set()) for name, names in told.items()} == {name: set() for name in told}


# One side of the socket is older than the other.

ENV_AND_FOLDER = ("environ", "cwd")


class Frame(Struct):
    """A recorded frame."""

    connection: int
    side: str
    bytes: str

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.bytes)


def frames_of(connection: int) -> list[Frame]:
    lines = (CORPUS / "frames.jsonl").read_bytes().splitlines()
    return [one for one in (msgspec.json.decode(line, type=Frame) for line in lines) if one.connection == connection]


@asynccontextmanager
async def old_gateway(home: TempHome, connection: int) -> AsyncIterator[list[dict[str, object]]]:
    """Say what the older gateway said, when it is asked what that was asked; yields what it was asked."""
    heard: list[dict[str, object]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for frame in frames_of(connection):
            if frame.side == "server":
                writer.write(frame.bytes.encode())
            elif line := await reader.readline():
                heard.append(json.loads(line))
        await writer.drain()
        await reader.read()
        writer.close()

    folder = home.hermes / "run"
    folder.mkdir(mode=0o700)
    async with await asyncio.start_unix_server(serve, folder / "gateway.sock"):
        yield heard


def asked_of(connection: int) -> list[dict[str, object]]:
    return [one.json for one in frames_of(connection) if one.side == "client"]


def plain(frames: list[dict[str, object]]) -> list[dict[str, object]]:
    """Leave out what belongs to the caller's own process."""
    return [{name: value for name, value in one.items() if name not in ENV_AND_FOLDER} for one in frames]


@pytest.mark.slow
async def test_a_new_command_line_understands_an_old_gateway() -> None:
    for connection, arguments, shown in (
        (0, ("-z", "through the gateway"), "for the caller\n"),
        (1, ("gateway", "status", "--json"), '"state": "connected"'),
        (2, ("gateway", "reload"), "changed: none"),
    ):
        with TempHome({}) as home:
            async with old_gateway(home, connection) as heard:
                done = await run(home, *arguments)
            assert shown in done.stdout
            assert plain(heard) == plain(asked_of(connection))


class Shown:
    """Keeps what a command tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        del level
        self.lines.append(text)

    def show(self, markdown: str) -> None:
        self.lines.append(markdown)

    async def choose(self, title: str, options: object, *, chosen: int = 0) -> int | None:
        raise AssertionError(title, options, chosen)

    async def confirm(self, question: str) -> bool:
        raise AssertionError(question)

    async def ask(self, question: str, *, default: str = "") -> str | None:
        raise AssertionError(question, default)


async def test_a_new_guest_takes_part_in_what_an_old_gateway_holds() -> None:
    attach, post = asked_of(3)[:2]
    inbound = msgspec.convert(post["inbound"], InboundMessage)
    with TempHome({}) as home:
        async with old_gateway(home, 3) as heard, asyncio.timeout(60):
            wire = await connect_socket(home.hermes / "run" / "gateway.sock")
            assert wire is not None
            wire.send(AttachFrame(session_id=str(attach["session_id"]), asks=True, language="en"))
            first = await wire.next_frame()
            assert isinstance(first, AttachedFrame)
            remote = RemoteSession(wire, first)
            events: list[object] = []
            asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            remote.subscribe(events.append)
            remote.subscribe(lambda one: asked.set_result(one.approval_id) if isinstance(one, ApprovalAsked) else None)
            remote.start_reading()
            ended = remote.post(inbound)
            remote.approvals.answer(await asked, scope=AnswerScope.DENY, by="person")
            assert (await ended).text == "not reset"
            shown = Shown()
            await remote.run_command("title", "A title", shown)
            with pytest.raises(NotFoundError):
                await remote.run_command("nonsense", "", shown)
            await remote.close()
    told = [one for one in frames_of(3) if one.side == "server"]
    assert json.loads(msgspec.json.encode(events)) == [
        one.json["event"] for one in told if one.json["type"] == "happened"
    ]
    assert shown.lines == [one.json["text"] for one in told if one.json["type"] == "told"]
    assert heard == asked_of(3)


@pytest.mark.parametrize("kind", ["BusyError", "ConfigError", "NotFoundError", "StoreError", "UsageError"])
def test_an_error_is_named_over_the_socket_as_it_was(kind: str) -> None:
    said = ErrorFrame(kind=kind, message="It failed.", hint="Try again.", id=3)
    assert error_frame(error_from_frame(said), 3) == said


def shape(frame: object, name: str = "") -> object:
    """Return what has to be the same in two runs: fields, and the values that are words of the protocol."""
    if isinstance(frame, dict):
        # What an older client has no field for it leaves out: `wordings` came later, beside the fields of a frame.
        left = ("usage", "health", "why", "wordings")
        return {key: shape(value, key) for key, value in frame.items() if key not in left}
    if isinstance(frame, list):
        return [shape(one, name) for one in frame]
    return frame if name in ("type", "kind", "reason", "role", "status", "source", "allowed", "by") else type(frame)


async def replay(path: Path, connection: int, said: Callable[[dict[str, object]], None]) -> list[dict[str, object]]:
    """Say what the older client said, each line once as much was heard as that client had heard by then."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 25)
    heard: list[dict[str, object]] = []
    given = ""
    for frame in frames_of(connection):
        recorded = frame.json
        if "text_delta" in frame.bytes:
            continue  # how an answer is cut into pieces is a matter of time
        if frame.side == "client":
            said(recorded)
            if recorded["type"] == "answer":
                recorded["approval_id"] = given
            writer.write(msgspec.json.encode(recorded) + b"\n")
            continue
        while b"text_delta" in (line := await reader.readline()):
            continue
        assert line, f"nothing came in the place of {frame.bytes}"
        heard.append(json.loads(line))
        found = re.search(rb'"approval_id":"(\w+)"', line)
        given = found[1].decode() if found else given
    writer.close()
    return heard


async def test_a_new_gateway_understands_an_old_command_line() -> None:
    reset = Say(calls=(Call("terminal", {"command": "git reset --hard"}),))
    replies = [Say("for the chat"), Say("for the caller"), reset, Say("not reset")]
    async with ScriptedServer(replies) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home) as it, asyncio.timeout(60):
                await chat.say("hello from the chat")
                await chat.until(chat.shown)
                await it.gateway.outbox.wait_until_idle(60)
                with closing(database(home)) as opened:
                    (session_id,) = opened.execute("SELECT session_id FROM chat_sessions").fetchone()

                def here(frame: dict[str, object]) -> None:
                    if frame["type"] == "oneshot":
                        frame |= {"environ": home.environ, "cwd": str(home.cwd)}
                    elif frame["type"] == "attach" and frame["session_id"] != "nobody":
                        frame["session_id"] = session_id
                    elif frame["type"] == "post":
                        frame["inbound"] = {"text": "reset it", "cwd": str(home.cwd)}

                for connection in range(5):
                    heard = await replay(home.hermes / "run" / "gateway.sock", connection, here)
                    told = [one.json for one in frames_of(connection) if one.side == "server"]
                    then = [one for one in told if "text_delta" not in json.dumps(one)]
                    assert shape(heard) == shape(then)
