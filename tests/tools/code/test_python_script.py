"""Code that the interpreter cannot run is run by Python itself: as a command, with calls over its streams."""

import asyncio
import os

import pytest
from msgspec import structs

from hermes.core.events import ApprovalAsked, ToolStarted
from hermes.core.messages import ToolResultPart, ToolStatus
from hermes.tools.code.python_script import format_script_command
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import CodeAccess
from tests.tools.tool_session import Person, Session, session

__all__ = ["session"]


async def run_code(session: Session, code: str, **settings: object) -> ToolResultPart:
    session.person = session.person or Person(*[True] * 9)
    session.context = structs.replace(session.context, code=CodeAccess(engine="python", **settings))  # type: ignore[arg-type]
    return await session.call("execute_code", code=code)


async def test_it_is_asked_about_as_the_command_that_it_is(session: Session) -> None:
    await run_code(session, "print(1)")
    asked = next((one for one in session.events if isinstance(one, ApprovalAsked)), None)
    shown = [one.name for one in session.events if isinstance(one, ToolStarted)]
    assert shown == ["execute_code", "python_script"]
    if asked is not None:
        assert asked.subject == format_script_command("print(1)")
    session.events.clear()
    session.person = Person(False)
    result = await run_code(session, 'import shutil\nshutil.rmtree("x")')
    assert result.status is ToolStatus.REFUSED


async def test_a_session_without_commands_runs_no_python(session: Session) -> None:
    session.toolbox = ToolRegistry().select_tools(["file", "code_execution"])
    result = await run_code(session, "import os\nprint(os.getcwd())")
    assert result.status is ToolStatus.ERROR
    assert "runs no commands" in result.text
    assert session.journal.lines == ["intend c1", "done c1"]


async def test_prints_and_the_last_value_come_back(session: Session) -> None:
    result = await run_code(session, 'import statistics\nprint("a", end="")\nstatistics.mean([1, 3])')
    assert result.text.startswith("a2")


async def test_its_calls_go_the_way_of_all_calls(session: Session) -> None:
    (session.cwd / "a").write_text("apple\n")
    result = await run_code(session, 'def g():\n    yield read_file(path="a")\nprint(list(g()))')
    assert "apple" in result.text
    assert session.journal.lines == [
        "intend c1",
        "intend c1.0",
        "intend c1.1",
        "done c1.1",
        "done c1.0",
        "done c1",
    ]


async def test_a_failed_call_raises(session: Session) -> None:
    code = (
        'class A(ToolError): pass\ntry:\n    read_file(path="no")\nexcept ToolError as error:\n    print("no:", error)'
    )
    assert (await run_code(session, code)).text.startswith("no: ")


async def test_an_error_names_its_lines(session: Session) -> None:
    result = await run_code(session, "def f():\n    return 1 / 0\nf()")
    assert result.text == "line 3: f()\nline 2: return 1 / 0\nZeroDivisionError: division by zero"


async def test_code_that_ends_by_itself_says_how(session: Session) -> None:
    assert (await run_code(session, "import os\nos._exit(7)")).text == "Python ended with exit code 7."


async def test_code_that_takes_too_long_is_stopped(session: Session) -> None:
    result = await run_code(session, "while True: pass", timeout=0.3)
    assert "took more than 0.3 s" in result.text


async def test_the_time_of_calls_does_not_count(session: Session) -> None:
    result = await run_code(session, 'print(terminal(command="sleep 3.5"))', timeout=3.0)
    assert "exit code 0" in result.text


@pytest.mark.parametrize(
    "code",
    [
        'import os\nos.write(1, b"\\x1e" + b"0" * 32 + b\'{"ended":""}\\n\')\nprint(read_file(path="a")[:1])',
        'import subprocess\nsubprocess.run(["sh", "-c", "echo; cat; printf ~036"])\nprint(read_file(path="a")[:1])',
        'import sys\nprint(repr(sys.stdin.read()))\nprint(read_file(path="a")[:1])',
    ],
)
async def test_what_it_prints_is_never_taken_for_a_message(session: Session, code: str) -> None:
    (session.cwd / "a").write_text("apple\n")
    result = await run_code(session, code)
    assert result.text.rstrip().endswith(("1", "a"))
    assert "done c1.1" in session.journal.lines


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('at_once([("read_file", {"path": "a"})] * 60)', "Between 1 and 50 calls"),
        ('read_file(path="x" * 3_000_000)', "The arguments have over"),
        ('for n in range(60):\n    try: read_file(path="a")\n    except ToolError: pass', "it may make 50 calls"),
        ('while True: print("x" * 100_000)', "it printed too much"),
    ],
)
async def test_it_holds_the_limits_of_all_code(session: Session, code: str, said: str) -> None:
    assert said in (await run_code(session, code, timeout=4.0)).text
    assert len(session.journal.intents) <= 52


async def test_a_stop_ends_it_with_all_that_it_started(session: Session) -> None:
    code = (
        'import subprocess\nmade = subprocess.Popen(["sleep", "300"])\nwrite_file(path="pid", content=str(made.pid))\n'
    )
    task = asyncio.create_task(run_code(session, code + "import time\ntime.sleep(300)"))
    while "done c1.1" not in session.journal.lines:
        await asyncio.wait({task}, timeout=0.02)
        assert not task.done()
    pid = int((session.cwd / "pid").read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_shown_command_holds_the_code_whatever_is_in_it() -> None:
    shown = format_script_command("x = 'CODE'\nCODE\nrm -rf /")
    first, *_, last = shown.split("\n")
    assert last != "CODE"
    assert first == f"python3 - <<'{last}'"


async def test_a_program_that_reads_no_results_loses_its_own_time(session: Session) -> None:
    (session.cwd / "long").write_text("a line of a long file\n" * 5000)
    code = "import gc\nch = [one for one in gc.get_objects() if type(one).__name__ == 'Channel'][0]\n"
    code += "ch.send({'calls': [['read_file', {'path': 'long', 'limit': 5000}]] * 30})\nwhile True:\n    pass"
    result = await run_code(session, code, timeout=1.0)
    assert "more than 1 s" in result.text
