"""`hermes -z` as a program: a real process, a real home, a scripted model on a real socket."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from hermes.core.usage import Usage
from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

WIRES = ["chat_completions", "responses", "anthropic_messages"]


async def hermes(home: TempHome, *arguments: str, stdin: bytes = b"") -> ProgramResult:
    return await run_hermes(home, *arguments, stdin=stdin)


async def one_shot(
    replies: list[Reply], *arguments: str, api_mode: str = "", files: dict[str, str] | None = None
) -> tuple[ProgramResult, ScriptedServer, dict[str, str]]:
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            for name, text in (files or {}).items():
                (home.cwd / name).write_text(text)
            done = await hermes(home, *arguments)
            after = {path.name: path.read_text() for path in home.cwd.iterdir() if path.is_file()}
            return done, server, after


@pytest.mark.parametrize("api_mode", WIRES)
async def test_only_the_answer_is_printed(api_mode: str) -> None:
    done, server, _ = await one_shot([Say("Hello there.")], "-z", "hi", api_mode=api_mode)
    assert done == ProgramResult(0, "Hello there.\n", "")
    assert "hi" in server.requests[0].last_user_text


@pytest.mark.parametrize("api_mode", WIRES)
async def test_tools_act_on_real_files(api_mode: str) -> None:
    replies: list[Reply] = [
        Say(calls=(Call("read_file", {"path": "in.txt"}), Call("terminal", {"command": "echo made > made.txt"}))),
        Say("Read it.", calls=(Call("write_file", {"path": "out.txt", "content": "fruit"}),)),
        Say("Both done."),
    ]
    done, server, after = await one_shot(replies, "-z", "work", api_mode=api_mode, files={"in.txt": "apple\n"})
    assert (done.code, done.stdout, done.stderr) == (0, "Both done.\n", "")
    assert after["out.txt"] == "fruit"
    assert after["made.txt"] == "made\n"
    results = list(server.requests[1].results.values())
    assert "apple" in results[0]
    assert check_prefixes(server.requests) == 2


async def test_a_prompt_may_begin_with_a_dash_or_come_from_standard_input() -> None:
    async with ScriptedServer([Say("a"), Say("b")]) as server:
        with TempHome.for_server(server.url) as home:
            assert (await hermes(home, "-z", "-rf is an option of what?")).stdout == "a\n"
            assert (await hermes(home, "-z", "-", stdin="问题".encode())).stdout == "b\n"
        assert server.requests[0].last_user_text.startswith("-rf is")
        assert server.requests[1].last_user_text.startswith("问题")


async def test_a_refusal_is_told_to_the_model_and_to_the_person() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "git push --force origin main"}),)),
        Say("I may not."),
    ]
    done, server, _ = await one_shot(replies, "-z", "push it", "--no-input")
    assert done.code == 3
    assert done.stdout == "I may not.\n"
    assert done.stderr == (
        "hermes: refused: git push --force origin main (it overwrites or deletes shared history or branches, and "
        "nobody could be asked; --allow 'git push --force origin main' would let it run)\n"
    )
    assert "not" in next(iter(server.requests[1].results.values()))


async def test_an_allowed_pattern_runs_without_a_question() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "rm -r old"}),)), Say("Gone.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            done = await hermes(home, "-z", "clean", "--allow", "rm -r old")
            assert (done.code, done.stdout) == (0, "Gone.\n")
            assert not (home.cwd / "old").exists()


async def test_the_line_that_was_refused_names_what_lets_it_run() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "echo 'rm -r build' | sh; rm -r $PWD/x"}),)),
        Say("?"),
    ]
    async with ScriptedServer([*replies, *replies]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "build").mkdir()
            refused = await hermes(home, "-z", "clean", "--no-input")
            words = shlex.split(refused.stderr.partition("; --allow ")[2].rpartition(" would let")[0])
            assert (refused.code, (home.cwd / "build").exists()) == (3, True)
            allowed = await hermes(home, "-z", "clean", "--no-input", "--allow", *words)
            assert (allowed.code, allowed.stderr, (home.cwd / "build").exists()) == (0, "", False)


async def test_resume_and_continue_go_on_where_it_stopped() -> None:
    replies: list[Reply] = [Say(calls=(Call("read_file", {"path": "a"}),)), Say("one"), Say("two"), Say("three")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "a").write_text("content of a\n")
            await hermes(home, "-z", "first")
            listed = await hermes(home, "sessions", "list", "--json")
            session = json.loads(listed.stdout)[0]
            assert (await hermes(home, "-z", "second", "--resume", session["id"])).stdout == "two\n"
            assert (await hermes(home, "-z", "third", "--continue")).stdout == "three\n"
            shown = json.loads((await hermes(home, "sessions", "show", session["id"], "--json")).stdout)
        assert check_prefixes(server.requests) == 3
    assert [message["role"] for message in shown["messages"]] == [
        "user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


async def test_a_usage_file_tells_what_it_cost_even_when_it_failed(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    used = Usage(input=100, output=7, cache_read=60)
    done, _, _ = await one_shot([Say("ok", usage=used)], "-z", "x", "--usage-file", str(file))
    told = json.loads(file.read_bytes())
    assert (done.code, told["prompt_tokens"], told["cache_read_tokens"], told["completion_tokens"]) == (0, 100, 60, 7)
    done, _, _ = await one_shot([Fail(400, message="no such thing")], "-z", "x", "--usage-file", str(file))
    assert done.code == 1
    assert json.loads(file.read_bytes())["turn_exit_reason"] == "provider_error"


async def test_a_query_shows_its_work() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "echo hi"}),)), Say("All \x1b[31mred\x1b[0m.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            done = await hermes(home, "chat", "-q", "go")
    assert done.code == 0
    assert "· terminal" in done.stdout
    assert "All [31mred[0m." in done.stdout
    assert "\x1b" not in done.stdout


async def test_a_query_tells_each_call_once_and_shows_the_beginning_of_its_result() -> None:
    calls = (
        Call("read_file", {"path": "notes.txt"}),
        Call("patch", {"path": "notes.txt", "old_string": "two", "new_string": "2"}),
        Call("terminal", {"command": f"echo {'w' * 200}; echo second"}),
        Call("read_file", {"path": "gone.txt"}),
        Call("juggle", {"balls": 3}),
        Call("terminal", {"command": "git push --force"}),
    )
    replies: list[Reply] = [Say(calls=(call,)) for call in calls]
    done, _, _ = await one_shot(
        [*replies, Say("fin")], "chat", "-q", "go", "--no-input", files={"notes.txt": "one\ntwo\n"}
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("·")] == [
        "· read notes.txt",
        "· patch notes.txt",
        f"· terminal echo {'w' * 94}…",
        "· read gone.txt",
        "· juggle",
    ]
    after = {line: lines[at + 1 : at + 13] for at, line in enumerate(lines) if line.startswith("·")}
    assert "one" in after["· read notes.txt"][0] and after["· read notes.txt"][1].startswith("·")
    assert "  -two" in after["· patch notes.txt"] and "  +2" in after["· patch notes.txt"]
    assert f"  {'w' * 100}" in lines and "second" not in done.stdout
    assert after["· read gone.txt"][0].startswith("  error after 0.0 s: gone.txt does not exist")
    assert after["· juggle"][0].startswith("  invalid after 0.0 s: There is no tool 'juggle'")
    assert done.stdout.count("git push") == 0 and done.stderr.count("refused") == 1


async def test_files_are_searched_and_edited_with_small_faults() -> None:
    """The model's wording of lines that stay is not written, and it is told how many files a glob left."""
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n say \"one\"\n-two\n+2\n*** End Patch\nEOF"
    calls = (
        Call("search_files", {"pattern": "say", "file_glob": "*.{md,rst}"}),
        Call("patch", {"mode": "patch", "patch": patch}),
        Call("patch", {"path": "b.txt", "old_string": "x = 1", "new_string": "x = 2"}),
    )
    files = {"a.txt": "say  “one”  \ntwo\n", "b.txt": "x =  1\nx  = 1\n"}
    replies: list[Reply] = [Say(calls=(call,)) for call in calls]
    _, server, after = await one_shot([*replies, Say("done")], "chat", "-q", "go", "--no-input", files=files)
    assert after == {"a.txt": "say  “one”  \n2\n", "b.txt": files["b.txt"]}
    sent = str(server.requests[-1].messages)
    assert "*.{md,rst} fits none of 2 files here" in sent and "differs little from 2 places (lines 1, 2)" in sent


async def test_a_plain_chat_reads_lines_until_the_end() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url) as home:
            done = await hermes(home, stdin=b"first\n\nsecond\n/quit\nthird\n")
        assert done.code == 0
        assert done.stdout.split() == ["one", "two"]
        assert len(server.requests) == 2


async def test_the_second_process_sends_the_same_tools_and_system_prompt() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url) as home:
            await hermes(home, "-z", "a")
            await hermes(home, "-z", "b")
        first, second = server.requests
        assert first.body.partition(b'{"role":"user"')[0] == second.body.partition(b'{"role":"user"')[0]
        assert (first.system, first.tools) == (second.system, second.tools)
        assert len(first.body) <= 12_000


async def test_background_processes_that_end_with_the_session_are_told() -> None:
    calls = (
        Call("terminal", {"command": "echo $$ > pid; exec sleep 600", "background": True}),
        Call("terminal", {"command": "until [ -s pid ]; do sleep 0.01; done"}),
    )
    replies: list[Reply] = [Say(calls=(call,)) for call in calls]
    done, _, after = await one_shot([*replies, Say("Started.")], "-z", "serve")
    assert (done.code, done.stdout) == (0, "Started.\n")
    assert re.fullmatch(
        r"hermes: 1 background process was ended: echo \$\$ > pid; exec sleep 600 \(proc_\w+\)\n", done.stderr
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(after["pid"]), 0)


async def test_the_newest_session_is_that_of_the_folder(tmp_path: Path) -> None:
    """Where none began in the folder, it is the newest of all."""
    model = ScriptedModel(lambda request: Say(f"{len(request.messages)} messages"))
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    async with ScriptedServer(model) as server:
        with TempHome.for_server(server.url) as home:

            async def ask(folder: str, *words: str) -> str:
                done = await run_hermes(home, "-C", str(tmp_path / folder), *words)
                assert done.code == 0, done.stderr
                return done.stdout.strip()

            assert await ask("here", "-z", "one") == "2 messages"
            assert await ask("there", "-z", "two") == "2 messages"
            assert await ask("there", "-c", "-z", "three") == "4 messages"
            assert await ask("here", "-c", "-z", "four") == "4 messages"
            assert await ask(".", "-c", "-z", "five") == "6 messages"
