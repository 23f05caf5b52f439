"""`python -m bench.paths`: which of our files a real run enters, and how often its walls are called.

A newcomer who follows one message through the program opens these files. Three runs are recorded with the interpreter's
profile hook: one prompt of `hermes -z`, the same with one sandboxed command, and a warm message on Telegram, against a
scripted model and a fake of Telegram's server. A file counts as entered when a function of it is called; a module that
is only imported counts as imported. Of the warm message it also prints how often its row is read, how often the key of
its chat is made, and who calls the redactor (`docs/secrets.md` names these places). `--calls` lists its calls by
function.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.measure import run
from bench.recorder import OUTPUT_VARIABLE, CallRecorder
from hermes.testing.home import TempHome
from hermes.testing.server import ScriptedServer

_TEXT = "Say hello."
REDACT = "safety/secrets/redactor.py", "Redactor.redact"
_PASSED = frozenset(
    {"redact_event", "redact_message", "_redact_part", "_redact_provenance"}
    | {"safety/secrets/redactor.py", "App.redact_text", "ToolContext.redact"}
)
"""What hands a text on to the redactor for somebody else."""
ROW_READ = "store/chats.py", "_decode_event"
ROW_QUERY = "store/chats.py", "ChatRepository.list_new_events"
KEY_MADE = "gateway/session_pool.py", "chat_session_key"
_IDLE_SECONDS = 30.0


def record_prompt(*, tool: str = "") -> dict[str, list[str]]:
    """Return the files that one prompt of `hermes -z` enters, and its modules; with a command of the terminal tool."""
    from bench.measure import server
    from bench.programs import own_program

    program = own_program("")
    with ExitStack() as stack:
        home = stack.enter_context(TempHome())
        output = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "paths.json"
        rounds = ("--rounds", "1", "--tool", tool, "--arguments", '{"command": "echo hello"}') if tool else ()
        url = stack.enter_context(server(*rounds))
        environ = home.environ | program.configure(home, url) | {OUTPUT_VARIABLE: str(output)}
        start = "import sys; from bench.recorder import run_recorded_prompt; sys.exit(run_recorded_prompt())"
        result = run([sys.executable, "-c", start, "-z", _TEXT], environ, home, 120.0)
        if result.code:
            raise SystemExit(f"hermes -z ended with {result.code}:\n{result.output}")
        found: dict[str, list[str]] = json.loads(output.read_text())
        return found


async def record_warm_message() -> CallRecorder:
    """Send two messages to a gateway on a fake of Telegram's server. The second is recorded, from nothing else being
    under way until its answer is delivered.
    """
    recorder = CallRecorder(REDACT, _PASSED)
    recorder.install()
    try:
        await _answer_two_messages(recorder)
    finally:
        recorder.uninstall()
    return recorder


async def _answer_two_messages(recorder: CallRecorder) -> None:
    from hermes.gateway.gateway import Gateway
    from hermes.sessions.app import App
    from hermes.sessions.options import SessionOptions
    from hermes.testing.script import Say
    from tests.vendors import load_fake

    async with ScriptedServer([Say("One."), Say("Two.")]) as model, load_fake("telegram") as chat:
        accounts = {"telegram": {"batch_seconds": 0.05, "owners": [chat.person], **chat.options()}}
        with TempHome.for_server(model.url, more_config={"platforms": accounts}) as home:
            options = SessionOptions(platform="gateway", cwd=str(home.cwd))
            async with App(home.environ, options) as app, Gateway(app, lambda _: None) as gateway:
                await gateway.start()
                for account in gateway.accounts.values():
                    await account.wait_connected(30)
                await chat.say("The first message.")
                await chat.until(lambda: "One." in chat.text())
                await gateway.outbox.wait_until_idle(_IDLE_SECONDS)
                with recorder.recording():
                    await chat.say("The second message.")
                    await chat.until(lambda: "Two." in chat.text())
                    await gateway.outbox.wait_until_idle(_IDLE_SECONDS)


def main() -> int:
    """Record the three runs and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.paths", description=__doc__)
    parser.add_argument("--calls", action="store_true", help="list the functions that the warm message calls")
    parser.add_argument("--files", action="store_true", help="list the files")
    options = parser.parse_args()
    plain, command = record_prompt(), record_prompt(tool="terminal")
    recorder = asyncio.run(record_warm_message())
    more = sorted(set(command["files"]) - set(plain["files"]))
    print("| run | what | number |\n|---|---|---|")
    print(f"| `hermes -z` | modules imported | {len(plain['modules'])} |")
    print(f"| | files entered | {len(plain['files'])} |")
    print(f"| the same with a sandboxed command | files more | {len(more)} |")
    print(f"| a warm message on Telegram | files entered | {len(recorder.list_files())} |")
    print(f"| | queries for its row | {recorder.calls[ROW_QUERY]} |")
    print(f"| | times that its row is read | {recorder.calls[ROW_READ]} |")
    print(f"| | keys of its chat made | {recorder.calls[KEY_MADE]} |")
    print(f"| | calls of the redactor | {recorder.calls[REDACT]} |")
    for (file, name), count in sorted(recorder.callers.items()):
        print(f"| | by `{name}` ({file}) | {count} |")
    if options.files:
        print("\n-z:", *plain["files"], "\ncommand:", *more, "\nmessage:", *recorder.list_files(), sep="\n")
    if options.calls:
        for (file, name), count in sorted(recorder.calls.items()):
            print(f"{count:5} {file} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
