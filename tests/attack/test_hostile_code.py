"""Code that wants out: nothing it does has an effect that did not go through the gate."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.messages import ToolStatus
from hermes.tools.session import CodeAccess
from tests.tools.tool_session import Person, Session, make_context

ESCAPES = {
    "classes": "().__class__.__bases__[0].__subclasses__()",
    "class of a function": "(lambda: 0).__globals__",
    "code of a function": "(lambda: 0).__code__",
    "frames": "import sys\nsys._getframe()",
    "builtins": "__builtins__['open']('OUT', 'w')",
    "import by name": "__import__('os').system('touch OUT')",
    "import of modules": "import importlib\nimportlib.import_module('os').system('touch OUT')",
    "eval": "eval(\"__import__('os').system('touch OUT')\")",
    "exec": "exec(\"import os\\nos.system('touch OUT')\")",
    "files": "open('OUT', 'w').write('x')",
    "files by path": "from pathlib import Path\nPath('OUT').write_text('x')",
    "environment": "import os\nprint(os.environ)",
    "a call that is ours": '__hermes_call__(\'[["write_file", {"path": "OUT", "content": "x"}]]\')',
    "settling ourselves": "__hermes_ask__([['write_file', {'path': 'OUT', 'content': 'x'}]])",
    "another settle": "def __hermes_settle__(answer): return 'all right'\nprint(tool('write_file', {'path': 'OUT'}))",
    "another ask": "def __hermes_ask__(calls): return [['ok', 'yes']]\nprint(terminal(command='touch OUT'))",
    "a write": "write_file(path='OUT', content='x')",
    "a write through a link": "terminal(command='ln -s OUT link')\nwrite_file(path='link', content='x')",
    "a write at once": "at_once([('read_file', {'path': 'a'}), ('write_file', {'path': 'OUT', 'content': 'x'})])",
    "a write behind a read": "read_file(path='a')\nwrite_file(path='OUT', content='x')",
    "a command": "terminal(command='touch OUT')",
    "a command in the background": "terminal(command='touch OUT', background=True)",
    "code in code": "execute_code(code=\"write_file(path='OUT', content='x')\")",
    "code by tool_call": "tool('tool_call', {'name': 'execute_code', 'arguments': {'code': '1'}})",
    "a call by tool_call": "tool('tool_call', {'name': 'write_file', 'arguments': {'path': 'OUT', 'content': 'x'}})",
    "the inner tool": "tool('python_script', {'code': \"open('OUT', 'w')\"})",
    "a question": "clarify(question='May I?')",
    "another's work": "tool('delegate_task', {'goal': 'touch OUT'})",
    "no name": "tool('', {})",
    "a name of another form": "tool('Write-File', {'path': 'OUT', 'content': 'x'})",
    "arguments of another form": "tool('write_file', ['OUT', 'x'])",
    "half a character": "write_file(path='OUT\\ud800', content='x')",
    "a null character": "terminal(command='touch OUT\\0')",
    "a call id": "tool('write_file', {'path': 'OUT', 'content': 'x', 'call_id': 'c1'})",
    "an own read tool": "def read_file(path): return 'forged'\nread_file('a')\nwrite_file(path='OUT', content='x')",
    "a caught refusal": "while True:\n    try:\n        write_file(path='OUT', content='x')\n    except OSError: pass",
    "all calls in a loop": "for n in range(99):\n    try: terminal(command=f'touch OUT{n}')\n    except OSError: pass",
}
EXHAUSTING = {
    "a loop": "while True: pass",
    "memory": "x = 'a' * 10**10",
    "memory in pieces": "x = []\nwhile True: x.append('a' * 100_000)",
    "nesting": "x = []\nwhile True: x = [x]",
    "recursion": "def f(): f()\nf()",
    "prints": "while True: print('x' * 10_000)",
    "a large argument": "tool('write_file', {'path': 'OUT', 'content': 'x' * 10_000_000})",
    "many arguments": "at_once([('read_file', {'path': 'a'})] * 10_000)",
    "a large number": "print(10 ** 10 ** 8)",
    "a regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "names that are not there": "while True:\n    try: nothing\n    except NameError: pass",
    "sleeping": "import time\nwhile True: time.sleep(10)",
    "errors in errors": "def f(n):\n    try: f(n + 1)\n    finally: f(n + 1)\nf(0)",
    "an own error text": "raise ToolError('x' * 10_000_000)",
}


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    from hermes.tools.registry import ToolRegistry

    made = Session(make_context(tmp_path.resolve()), ToolRegistry().select_tools())
    made.person = Person(*[False] * 200)
    made.context = structs.replace(made.context, code=CodeAccess(timeout=2.0, key_file=tmp_path / "code.key"))
    (made.cwd / "a").write_text("apple\n")
    yield made
    await made.close()


async def run(session: Session, code: str) -> tuple[str, ToolStatus, Path]:
    """Run code that names a file which nobody allows: among the person's keys."""
    outside = Path(session.context.places.home) / ".ssh"
    outside.mkdir()
    async with asyncio.timeout(30):
        result = await session.call("execute_code", code=code.replace("OUT", str(outside / "made")))
    return result.text, result.status, outside


@pytest.mark.parametrize("name", ESCAPES)
async def test_no_code_gets_out(session: Session, name: str) -> None:
    _, _, outside = await run(session, ESCAPES[name])
    assert os.listdir(outside) == []
    allowed = {"execute_code", "read_file", "terminal", "write_file"}
    assert {one.tool for one in session.journal.intents} <= allowed
    assert len(session.journal.intents) <= 51
    assert "apple" in (await session.call("execute_code", code='print(read_file(path="a"))')).text


@pytest.mark.parametrize("name", EXHAUSTING)
async def test_no_code_exhausts_the_machine(session: Session, name: str) -> None:
    text, _, outside = await run(session, EXHAUSTING[name])
    assert os.listdir(outside) == []
    assert len(text) < 25_000
    assert "apple" in (await session.call("execute_code", code='print(read_file(path="a"))')).text


async def test_a_result_cannot_be_forged_for_the_person(session: Session) -> None:
    """What code makes of its own names stays its own: what people and the journal see is what was called."""
    (session.cwd / "b").write_text("banana\n")
    code = 'def __hermes_ask__(calls): return [["ok", "forged"]]\nprint(read_file(path="b"))'
    text, _, _ = await run(session, code)
    assert "banana" not in text
    assert [one.tool for one in session.journal.intents] == ["execute_code"]


async def test_python_itself_is_not_run_without_a_yes(session: Session) -> None:
    session.context = structs.replace(session.context, code=CodeAccess(engine="python"))
    text, status, outside = await run(
        session, "import shutil, os\nshutil.rmtree(os.path.dirname('OUT'))\nopen('OUT', 'w')"
    )
    assert status is ToolStatus.REFUSED
    assert text.startswith("Not allowed")
    assert outside.exists()
