"""What a person can get wrong: one clear line, an exit code that is not 0, no traceback, nothing lost."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Call, Fail, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.certificates import certificate
from tests.forked_hermes import run_hermes

GOOD: dict[str, object] = {"default": "m", "provider": "custom", "base_url": "http://127.0.0.1:9/v1", "api_key": "x"}


async def hermes(home: TempHome, *arguments: str) -> ProgramResult:
    return await run_hermes(home, *arguments)


def one_clear_line(done: ProgramResult, *words: str) -> None:
    lines = done.stderr.strip().splitlines()
    assert done.code not in (0, None)
    assert "Traceback" not in done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("hermes: ")
    for word in words:
        assert word in lines[0], lines[0]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({**GOOD, "provider": "opnai"}, ("opnai", "openai")),
        ({"default": "gpt-5", "provider": "openai"}, ("OPENAI_API_KEY",)),
        ({**GOOD, "api_mode": "smoke"}, ("smoke",)),
        ({"provider": "custom", "base_url": "http://127.0.0.1:9/v1", "api_key": "x"}, ("model",)),
        ({**GOOD, "base_url": "127.0.0.1:9"}, ("127.0.0.1:9",)),
        ({**GOOD, "context_length": "many"}, ("context_length",)),
        ({**GOOD, "max_tokens": 0}, ("model.max_tokens",)),
    ],
)
async def test_model_settings(model: Mapping[str, object], words: tuple[str, ...]) -> None:
    with TempHome({"model": model}) as home:
        one_clear_line(await hermes(home, "-z", "hi"), *words)
        assert not (home.hermes / "hermes.db").exists()


async def test_broken_yaml_names_the_file_and_the_line() -> None:
    with TempHome({}) as home:
        (home.hermes / "config.yaml").write_text("model:\n  default: [a\nagent: {}\n")
        one_clear_line(await hermes(home, "-z", "hi"), "config.yaml", "line 3")
        (home.hermes / "config.yaml").write_bytes(b"\xff\xfe\x00")
        one_clear_line(await hermes(home, "-z", "hi"), "config.yaml")
        (home.hermes / "config.yaml").write_text("- just\n- a list\n")
        one_clear_line(await hermes(home, "-z", "hi"), "config.yaml")


async def test_an_unreachable_host_and_one_that_does_not_exist() -> None:
    config = {"model": GOOD, "agent": {"api_max_retries": 0}}
    with TempHome(config) as home:
        one_clear_line(await hermes(home, "-z", "hi"), "127.0.0.1:9")
        home.write_config({**config, "model": {**GOOD, "base_url": "http://no-such-host.invalid/v1"}})
        one_clear_line(await hermes(home, "-z", "hi"), "no-such-host.invalid")


async def test_an_unknown_model_and_a_wrong_key() -> None:
    missing = Fail(404, message="The model `m` does not exist", code="model_not_found")
    wrong = Fail(401, message="Incorrect API key provided")
    async with ScriptedServer([missing, wrong]) as server:
        with TempHome.for_server(server.url) as home:
            one_clear_line(await hermes(home, "-z", "hi"), "does not exist")
            one_clear_line(await hermes(home, "-z", "hi"), "key")


async def test_a_session_that_does_not_exist() -> None:
    with TempHome({"model": GOOD}) as home:
        one_clear_line(await hermes(home, "-z", "hi", "--resume", "nope"), "nope", "sessions list")
        one_clear_line(await hermes(home, "-z", "hi", "--continue"), "session")


async def test_a_home_that_is_a_file_or_cannot_be_made() -> None:
    with TempHome({"model": GOOD}) as home:
        file = home.root / "file"
        file.write_text("")
        for place in (file, file / "below", Path("/proc/hermes")):
            home.more["HERMES_HOME"] = str(place)
            one_clear_line(await hermes(home, "-z", "hi"), "HERMES_HOME")


@pytest.mark.parametrize("arguments", [["-z", "hi"], ["sessions", "list"]])
async def test_a_home_that_may_not_be_entered(arguments: list[str]) -> None:
    script = (
        "import os, sys, hermes.cli.plain.chat, hermes.cli.verb_runner, hermes.commands.sessions;"
        "from hermes.cli.main import main;"
        "os.geteuid() or os.seteuid(65534); sys.exit(main(sys.argv[1:]))"
    )
    with TempHome({"model": GOOD}) as home:
        home.hermes.chmod(0o000)
        one_clear_line(await home.run(sys.executable, "-c", script, *arguments), str(home.hermes), "HERMES_HOME")
        home.hermes.chmod(0o700)


async def test_a_home_of_another_program_is_left_alone_until_agreed() -> None:
    async with ScriptedServer([Say("hello"), Say("again")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.hermes / "state.db").write_bytes(b"not ours")
            (home.hermes / "auth.json").write_text("{}")
            before = {path.name: path.read_bytes() for path in home.hermes.iterdir()}
            one_clear_line(await hermes(home, "-z", "hi", "--no-input"), "state.db", "hermes home share")
            assert {path.name: path.read_bytes() for path in home.hermes.iterdir()} == before
            assert (await hermes(home, "home", "share")).code == 0
            assert (await hermes(home, "-z", "hi")).stdout == "hello\n"
            assert {name: (home.hermes / name).read_bytes() for name in before} == before


async def test_a_full_disk_ends_the_turn_by_name_and_loses_nothing() -> None:
    replies: list[Reply] = [Say("one"), Say("x" * 800_000), Say("three"), Say("four")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            assert (await hermes(home, "-z", "first")).code == 0
            limit = str((home.hermes / "hermes.db").stat().st_size // 1024 + 64)
            shell = f"ulimit -f {limit}; exec {sys.executable} -m hermes -z second --continue"
            done = await home.run("bash", "-c", shell)
            one_clear_line(done, "room")
            # Room again: the turn that could not be written is gone on with, then the new message is answered.
            third = await hermes(home, "-z", "third", "--continue")
            assert third.stdout == "four\n"
            assert "second" in third.stderr and "three" in third.stderr


async def test_what_is_odd_in_a_file_goes_to_the_model_as_a_result() -> None:
    names = ["binary", "latin", "huge", "fifo", "missing", "."]
    replies: list[Reply] = [
        Say(calls=tuple(Call("read_file", {"path": name, "limit": 3}) for name in names)),
        Say("seen"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "binary").write_bytes(bytes(range(256)) * 64)
            (home.cwd / "latin").write_bytes("caf\u00e9\n".encode("latin-1"))
            (home.cwd / "huge").write_bytes(b"line one\nline two\n")
            os.truncate(home.cwd / "huge", 200 << 20)
            os.mkfifo(home.cwd / "fifo")
            done = await hermes(home, "-z", "look")
        assert (done.code, done.stdout) == (0, "seen\n")
        results = list(server.requests[1].results.values())
    assert "binary" in results[0].lower()
    assert "caf" in results[1]
    assert len(results[2]) < 20_000
    assert len(results) == len(names)


async def test_lone_surrogates_reach_the_model_as_valid_text() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", '{"command": "echo \\ud83d"}'),)), Say("ok")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, "-z", b"a\xed\xa0\x80b".decode("utf-8", "surrogateescape"))
        assert (done.code, done.stdout) == (0, "ok\n")
        for request in server.requests:
            request.body.decode("utf-8")


async def test_unknown_settings_are_named_and_do_not_stop_the_work() -> None:
    async with ScriptedServer([Say("fine")]) as server:
        with TempHome.for_server(server.url, more_config={"modle": 1}) as home:
            done = await hermes(home, "-z", "hi")
    assert (done.code, done.stdout) == (0, "fine\n")
    assert "modle" in done.stderr
    assert "model" in done.stderr


async def test_a_server_that_never_was_there_is_asked_as_often_as_the_lines_say() -> None:
    with TempHome({"model": GOOD}) as home:
        done = await hermes(home, "-z", "hi")
    first, second, last = done.stderr.splitlines()
    assert done.code == 1 and "Is the server running?" in last
    assert first.endswith("(attempt 1 of 2).") and second.endswith("(attempt 2 of 2).")


async def test_a_mistyped_verb_is_told_the_right_one() -> None:
    with TempHome() as home:
        one_clear_line(await hermes(home, "sesions", "list"), "sessions")


async def test_a_certificate_that_nobody_trusts_and_one_that_is_given(tmp_path: Path) -> None:
    context, file = certificate(tmp_path)
    async with ScriptedServer([Say("secure")], tls=context) as server:
        with TempHome.for_server(server.url) as home:
            one_clear_line(await hermes(home, "-z", "hi"), "certificate", "SSL_CERT_FILE")
            home.more["SSL_CERT_FILE"] = str(file)
            assert (await hermes(home, "-z", "hi")).stdout == "secure\n"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("video", "No tool of the set(s) video exists in this version. Sets are: "),
        ("computer_use", "No tool of the set(s) computer_use exists in this version. Sets are: "),
        ("", "There is no toolset ''. Sets are: "),
        ("fil", "There is no toolset 'fil'. Did you mean 'file'? Sets are: "),
    ],
)
async def test_tool_sets_without_tools_are_refused(sets: str, said: str) -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, "-z", "x", "-t", sets)
        assert (done.code, done.stdout) == (78, "")
        assert done.stderr.startswith(f"hermes: {said}") and len(done.stderr) < 300


async def test_a_tool_set_without_tools_among_others_is_told() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url, more_config={"disabled_toolsets": ["vision"]}) as home:
            done = await run_hermes(home, "-z", "x", "-t", "file,video")
        assert (done.code, done.stdout) == (0, "ok\n")
        assert done.stderr == "hermes: The tool set video holds no tools in this version.\n"
        assert len(server.requests[0].tools) == 4


async def test_a_refused_tool_set_is_told_in_whole_chinese_sentences() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["HERMES_LANGUAGE"] = "zh"
            done = await run_hermes(home, "-z", "x", "-t", "computer_use")
    assert done.stderr.startswith(
        "hermes: 工具集 computer_use 在这个版本中没有工具。工具集有：browser, browser-cdp, clarify, "
    )
