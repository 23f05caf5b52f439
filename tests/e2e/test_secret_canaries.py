"""Keys in the environment, in `.env` and in the settings, and tools that print them in every form: none is found."""

import base64
import json
import random
import string
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Call, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer


def made(seed: str) -> str:
    return "cn-" + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=32))


SECRETS = {name: made(name) for name in ("ONE_API_KEY", "TWO_TOKEN", "THREE_SECRET", "config", "dotenv")}
PRINTER = """
import base64, json, sys
for value in sys.stdin.read().split():
    raw = value.encode()
    print(value, value[::-1], raw.hex(), raw.hex(":"), json.dumps(value), " ".join(value), value[:9], "+", value[9:])
    for before in (b"", b"x", b"xy"):
        print(base64.urlsafe_b64encode(before + raw).decode(), base64.b64encode(before + raw).decode())
"""


def traces(value: str) -> Iterator[bytes]:
    raw = value.encode()
    yield from (raw, raw[::-1], raw.hex().encode(), base64.b64encode(raw)[:40], " ".join(value).encode())
    yield from (base64.b64encode(b"x" + raw)[4:40], base64.b64encode(b"xy" + raw)[4:40], raw.hex(":").encode())


def found_in(data: bytes) -> list[str]:
    return [name for name, value in SECRETS.items() if any(trace in data for trace in traces(value))]


def files_with_secrets(home: TempHome, *but: Path) -> list[tuple[str, list[str]]]:
    paths = [path for path in home.hermes.rglob("*") if path.is_file() and path not in but]
    return [(str(path.relative_to(home.hermes)), names) for path in paths if (names := found_in(path.read_bytes()))]


async def turn(home: TempHome, server: ScriptedServer) -> ProgramResult:
    (home.cwd / "printer.py").write_text(PRINTER)
    (home.cwd / "keys.txt").write_text("\n".join(SECRETS.values()))
    (home.cwd / "app.yaml").write_text(f"name: app\nkey: {SECRETS['ONE_API_KEY']}\n")
    return await home.run(sys.executable, "-m", "hermes", "-z", "show me", "--no-input", "--allow", "*")


def replies() -> list[Reply]:
    return [
        Say(
            calls=(
                Call("terminal", {"command": "python3 printer.py < keys.txt"}),
                Call("read_file", {"path": "keys.txt"}),
            )
        ),
        Say(calls=(Call("read_file", {"path": "app.yaml"}),)),
        Say("Seen."),
    ]


async def test_a_turn_that_prints_them_leaves_none_behind() -> None:
    async with ScriptedServer(replies()) as server:
        with TempHome.for_server(server.url, more_config={}) as home:
            prepare(home)
            done = await turn(home, server)
            assert done.code == 0, done.stderr
            assert not found_in((done.stdout + done.stderr).encode())
            assert files_with_secrets(home, home.hermes / ".env", home.hermes / "config.yaml") == []
            sent = [json.dumps(json.loads(request.body)).encode() for request in server.requests]
            assert [found_in(body) for body in sent] == [[] for _ in sent]
            assert b"[secret:ONE_API_KEY" in sent[-1] and b"[secret:" in sent[-1]


async def test_nothing_of_the_keys_is_written_by_a_turn_that_does_not_print_them() -> None:
    async with ScriptedServer([Say("Hello.")]) as server:
        with TempHome.for_server(server.url) as home:
            prepare(home)
            done = await home.run(sys.executable, "-m", "hermes", "-z", "hi")
            assert done.code == 0, done.stderr
            assert not found_in((done.stdout + done.stderr).encode())
            assert files_with_secrets(home, home.hermes / ".env", home.hermes / "config.yaml") == []
            assert not any(found_in(request.body) for request in server.requests)


async def test_an_answer_that_holds_a_key_is_shown_without_it_whole_or_in_pieces() -> None:
    said = f"It is {SECRETS['ONE_API_KEY']}, as you know."
    async with ScriptedServer(ScriptedModel([], then=Say(said, chunk=5, delivery=ReplyDelivery(pace=0.01)))) as server:
        with TempHome.for_server(server.url) as home:
            prepare(home)
            for arguments in (("-z", "hi"), ("chat", "-q", "hi")):
                done = await home.run(sys.executable, "-m", "hermes", *arguments)
                assert done.stdout == "It is [secret:ONE_API_KEY], as you know.\n"


async def test_a_file_with_a_key_is_edited_without_showing_it() -> None:
    value = SECRETS["ONE_API_KEY"]
    line = "key: [secret:ONE_API_KEY]"
    edit: list[Reply] = [
        Say(calls=(Call("read_file", {"path": "app.yaml"}),)),
        Say(
            calls=(
                Call(
                    "patch",
                    {"path": "app.yaml", "old_string": f"name: app\n{line}", "new_string": f"name: new\n{line}"},
                ),
            )
        ),
        Say(calls=(Call("write_file", {"path": "copy.yaml", "content": f"{line}\n"}),)),
        Say(calls=(Call("terminal", {"command": "echo '[secret:ONE_API_KEY]' > said.txt"}),)),
        Say("Changed."),
    ]
    async with ScriptedServer(edit) as server:
        with TempHome.for_server(server.url) as home:
            prepare(home)
            done = await turn(home, server)
            assert (home.cwd / "app.yaml").read_text() == f"name: new\nkey: {value}\n"
            assert not (home.cwd / "copy.yaml").exists() and not (home.cwd / "said.txt").exists()
            assert not found_in((done.stdout + done.stderr).encode())
            assert not any(found_in(request.body) for request in server.requests)


def prepare(home: TempHome) -> None:
    """Keys in the environment, the home's `.env` and its settings."""
    home.more.update({name: value for name, value in SECRETS.items() if name.isupper()})
    (home.hermes / ".env").write_text(f"DOT_API_KEY={SECRETS['dotenv']}\n")
    config = home.hermes / "config.yaml"
    config.write_text(config.read_text().replace("api_key: x", f"api_key: {SECRETS['config']}"))
