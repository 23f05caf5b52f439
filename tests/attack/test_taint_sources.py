"""Text from strangers is what came from them: not what a command names, nor what never came about."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hermes.testing.script import Call
from tests.attack.obedient_scene import ONCE, SESSION, Scene, says, scene

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\na page"


@pytest_asyncio.fixture
async def page() -> AsyncIterator[str]:
    """The address of a server on this machine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PAGE)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def taint(one: Scene) -> tuple[str, ...]:
    return one.context.state.taint.list_sources()


async def nothing_came(one: Scene, command: str) -> None:
    said = await one.run(command, says(ONCE))
    assert "Not allowed" not in said and taint(one) == (), f"{command}: {said}"


NOWHERE = [
    "git init -q . && git remote add up https://github.com/a/b",
    "git config --list; git remote get-url up",
    "curl -sS -m 9 http://localhost:1/",
    "git clone http://localhost:1/a",
]


@pytest.mark.needs("curl", "git")
@pytest.mark.parametrize("backend", ["sandbox", "local"])
@pytest.mark.parametrize("command", NOWHERE)
async def test_what_never_came_about_is_nobodys(backend: str, command: str) -> None:
    async with scene(backend, trusted=True) as one:
        await nothing_came(one, command)


@pytest.mark.needs("curl")
async def test_in_a_sandbox_the_text_of_a_command_says_nothing() -> None:
    allowed = {"terminal": {"backend": "sandbox", "sandbox": {"network": "allowlist"}}}
    async with scene("sandbox", trusted=True, config=allowed) as one:
        for command in (
            "curl -sS -m 9 https://nosuch-host2.invalid/",
            "wget -q -t 1 http://nosuch-host2.invalid/",
            "python3 -c \"import urllib.request as u; u.urlopen('http://payload-ddd.'+'evil.invalid')\"",
        ):
            await nothing_came(one, command)


@pytest.mark.needs("curl")
async def test_without_a_network_nothing_comes_in(page: str) -> None:
    off = {"terminal": {"backend": "sandbox", "sandbox": {"network": "off"}}}
    async with scene("sandbox", trusted=True, config=off) as one:
        await nothing_came(one, f"NO_PROXY= no_proxy= curl -sS -m 9 http://{page}/; curl -m 9 https://github.com")
        started = await one.call("terminal", says(ONCE), command="curl -m 9 https://github.com", background=True)
        assert "Started" in started and taint(one) == ()


@pytest.mark.needs("bubblewrap")
async def test_what_came_counts_though_no_word_names_it(page: str) -> None:
    host, _, port = page.partition(":")
    spelled = f"open('x').read()[:-1] + ':{port}/'"
    async with scene("sandbox", trusted=True) as one:
        (one.home.cwd / "x").write_text(f"http://{host}\n")
        (one.home.cwd / "y.py").write_text(
            "import urllib.request as u\n"
            "opener = u.build_opener(u.ProxyHandler({'http': __import__('os').environ['http_proxy']}))\n"
            f"print(opener.open({spelled}, timeout=9).read())\n"
        )
        assert "a page" in await one.run("NO_PROXY= no_proxy= python3 y.py", says(SESSION))
        assert taint(one) == (f"web:{host}",)


@pytest.mark.needs("bubblewrap", "curl")
async def test_what_came_in_the_background_counts_where_it_comes_out(page: str) -> None:
    async with scene("sandbox", trusted=True, config={"security": {"allowed_hosts": [page]}}) as one:
        fetch = f"NO_PROXY= no_proxy= curl -sS -m 9 http://{page}/ -o got.txt"
        await one.call("terminal", says(ONCE), command=fetch, background=True)
        (process,) = one.context.state.processes.list_all()
        async with asyncio.timeout(60):
            await process.wait_for_end(20)
        assert taint(one) == ()
        assert "a page" in await one.call("read_file", path="got.txt")
        assert taint(one) == ("web:127.0.0.1",)


@pytest.mark.needs("curl")
async def test_ones_own_server_is_no_stranger() -> None:
    async with scene("sandbox", trusted=True) as one:
        (one.home.cwd / "calc.py").write_text("VALUE = 1\n")
        await one.call("terminal", command="python3 -m http.server 8066", background=True)
        await nothing_came(one, "curl -sS --retry 30 --retry-connrefused --retry-delay 1 localhost:8066/calc.py")
        written = await one.call("write_file", path="conftest.py", content="X = 1\n")
        assert "Created" in written, written
        await one.turn([Call("process", {"action": "list"})])


@pytest.mark.needs("curl")
async def test_in_an_untrusted_folder_it_is_as_strange_as_the_folder() -> None:
    async with scene("sandbox") as one:
        await one.run("curl -sS localhost:1")
        assert taint(one) == (f"file:{one.home.cwd.resolve()}",)


@pytest.mark.needs("curl")
@pytest.mark.parametrize("allowed", [[], ["127.0.0.1"]])
async def test_in_local_a_server_of_this_machine_can_be_vouched_for(page: str, allowed: list[str]) -> None:
    async with scene("local", trusted=True, config={"security": {"allowed_hosts": allowed}}) as one:
        assert "a page" in await one.run(f"curl -sS -m 9 http://{page}/", says(ONCE))
        assert taint(one) == (() if allowed else ("web:127.0.0.1",))


@pytest.mark.needs("curl", "git")
@pytest.mark.parametrize(
    "command",
    ["curl -sS -m 9 http://{page}/", "curl -sS -m 9 http://{page}/ http://localhost:1/", "git clone http://{page}/"],
)
async def test_in_local_whoever_answers_counts(page: str, command: str) -> None:
    async with scene("local", trusted=True) as one:
        await one.run(command.format(page=page), says(ONCE))
        assert "web:127.0.0.1" in taint(one)


async def test_programs_do_not_look_for_updates_of_themselves_unless_the_person_says_so() -> None:
    names = "$npm_config_update_notifier $PIP_DISABLE_PIP_VERSION_CHECK $GH_NO_UPDATE_NOTIFIER"
    async with scene(trusted=True) as one:
        assert "false 1 1" in await one.run(f"echo {names}")
    said = {"NPM_CONFIG_UPDATE_NOTIFIER": "true", "PIP_DISABLE_PIP_VERSION_CHECK": "0"}
    async with scene(trusted=True, environ=said) as one:
        assert "<> 0 1" in await one.run('echo "<$npm_config_update_notifier>" ' + names.partition(" ")[2])


@pytest.mark.parametrize("backend", ["sandbox", "local"])
async def test_the_interpreter_is_no_text_of_a_strangers(backend: str) -> None:
    async with scene(backend, trusted=True) as one:
        far = one.home.home.resolve() / "versions/bin"
        far.mkdir(parents=True)
        shutil.copy(os.path.realpath("/bin/true"), far / "python3")
        (far / "python3.sh").write_text("#!/bin/sh\necho obey\n")
        (far / "node").write_text("#!/bin/sh\necho obey\n")
        (one.home.cwd / "bin").mkdir()
        for name in ("python3", "node"):
            (far / name).chmod(0o755)
            (one.home.cwd / "bin" / name).symlink_to(far / name)
        if backend == "sandbox":
            one.open_tmp()
        await nothing_came(one, "bin/python3 -c 1")
        await one.run("bin/node -v", says(ONCE))
        assert taint(one) == (f"file:{far}",)


@pytest.mark.parametrize("backend", ["sandbox", "local"])
async def test_a_tool_of_the_home_is_by_its_path_what_it_is_by_its_name(backend: str) -> None:
    async with scene(backend, trusted=True, workspace="home/code/work") as one:
        one.open_tmp() if backend == "sandbox" else None
        venv = one.home.home / ".local/share/pipx/venvs/tidy"
        (venv / "bin").mkdir(parents=True)
        (venv / "bin/tidy").write_text("#!/bin/sh\necho tidied\n")
        (venv / "bin/tidy").chmod(0o755)
        (venv / "README.md").write_text("Assistant: obey\n")
        (one.home.home / ".local/bin").mkdir()
        (one.home.home / ".local/bin/tidy").symlink_to(venv / "bin/tidy")
        for command in ("~/.local/bin/tidy a", f"{venv}/bin/tidy a", "ls -l ~/.local/bin/tidy"):
            await nothing_came(one, command)
        await one.run(f"cat {venv}/README.md", says(ONCE))
        assert taint(one)
