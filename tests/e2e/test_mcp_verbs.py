"""`hermes mcp add` and `remove` as a program: what is written where, and that the server is tried."""

import json
import re
import stat
import sys
from pathlib import Path

import pytest
import yaml

from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes

SERVER = (sys.executable, "-I", str(Path(__file__).parents[1] / "mcp" / "broken_server.py"))
KEY = "sk-" + "ab12" * 8


async def test_a_program_is_added_tried_and_removed() -> None:
    with TempHome({}) as home:
        file, dotenv = home.hermes / "config.yaml", home.hermes / ".env"
        file.write_text("# my own words\ndisplay:\n  skin: light  # in the sun\n")
        words = ("mcp", "add", "srv", "--env", f"API_TOKEN={KEY}", "--env", "REGION=eu", "--", *SERVER)
        done = await run_hermes(home, *words)
        assert done.code == 0, done
        assert "Added srv to" in done.stdout and "srv: ready in" in done.stdout and KEY not in done.stdout
        text = file.read_text()
        assert text.startswith("# my own words\ndisplay:\n  skin: light  # in the sun\n") and KEY not in text
        assert yaml.safe_load(text)["mcp_servers"]["srv"] == {
            "command": SERVER[0],
            "args": list(SERVER[1:]),
            "env": {"API_TOKEN": "${MCP_SRV_API_TOKEN}", "REGION": "eu"},
        }
        assert dotenv.read_text() == f"MCP_SRV_API_TOKEN={KEY}\n"
        assert stat.S_IMODE(dotenv.stat().st_mode) == 0o600
        again = await run_hermes(home, *words)
        assert (again.code, file.read_text()) == (2, text)
        assert "There is an MCP server 'srv' already." in again.stderr
        assert "srv" in (await run_hermes(home, "mcp", "list")).stdout
        gone = await run_hermes(home, "mcp", "remove", "srv")
        assert (gone.code, "Its variables stay in .env: MCP_SRV_API_TOKEN." in gone.stdout) == (0, True)
        assert "srv" not in file.read_text()
        assert (await run_hermes(home, "mcp", "remove", "srv")).code == 1


async def test_a_list_connects_to_all_servers_and_says_why_one_is_not_there() -> None:
    servers = {
        "good": {"command": SERVER[0], "args": list(SERVER[1:])},
        "gone": {"command": "/nonexistent/server"},
        "away": {"url": "http://127.0.0.1:9/mcp"},
        "resting": {"command": "/nonexistent/server", "enabled": False},
    }
    with TempHome({"mcp_servers": servers}) as home:
        done = await run_hermes(home, "mcp", "list")
        lines = {line.split()[0]: line for line in done.stdout.splitlines()}
        assert (done.code, sorted(lines)) == (0, ["away", "gone", "good", "resting"]), done
        assert re.search(r"connected, \d+ tools?$", lines["good"])
        assert "not connected: " in lines["gone"] and "not connected: " in lines["away"]
        assert lines["resting"].endswith("off")
        rows = {
            row["name"]: row
            for row in map(json.loads, (await run_hermes(home, "mcp", "list", "--json")).stdout.splitlines())
        }
        assert rows["good"]["connected"] and rows["good"]["tools"] > 0 and not rows["gone"]["connected"]
        only = await run_hermes(home, "mcp", "list", "--no-connect")
        assert only.code == 0 and "connected" not in only.stdout and only.stdout.count("\n") == 4


async def test_one_server_is_shown_with_its_settings_and_no_values_of_variables() -> None:
    given = {"command": SERVER[0], "args": list(SERVER[1:]), "env": {"REGION": KEY}, "tools": {"exclude": ["echo"]}}
    with TempHome({"mcp_servers": {"srv": given}}) as home:
        done = await run_hermes(home, "mcp", "get", "srv")
        assert done.code == 0 and "connected, " in done.stdout and "not connected" not in done.stdout
        assert "variables: REGION" in done.stdout and "without these tools: echo" in done.stdout
        assert KEY not in done.stdout
        missing = await run_hermes(home, "mcp", "get", "other")
        assert missing.code == 1 and "There is no MCP server 'other'." in missing.stderr


async def test_an_address_with_a_header_and_a_server_that_does_not_answer() -> None:
    with TempHome({}) as home:
        header = f"Authorization: Bearer {KEY}"
        done = await run_hermes(home, "mcp", "add", "docs", "--url", "http://127.0.0.1:9/mcp", "--header", header)
        assert done.code == 1 and "It stays in config.yaml" in done.stderr
        text = (home.hermes / "config.yaml").read_text()
        assert KEY not in text + done.stdout + done.stderr
        found = yaml.safe_load(text)["mcp_servers"]["docs"]
        assert found == {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "${MCP_DOCS_AUTHORIZATION}"}}
        assert (home.hermes / ".env").read_text() == f'MCP_DOCS_AUTHORIZATION="Bearer {KEY}"\n'


@pytest.mark.parametrize(
    "words",
    [
        ("--transport", "http", "docs", "http://127.0.0.1:9/mcp"),
        ("docs", "-t", "http", "http://127.0.0.1:9/mcp"),
        ("docs", "http://127.0.0.1:9/mcp"),
    ],
)
async def test_an_address_is_told_from_a_program(words: tuple[str, ...]) -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "mcp", "add", *words, "--no-test")
        assert done.code == 0, done
        assert yaml.safe_load((home.hermes / "config.yaml").read_text())["mcp_servers"] == {
            "docs": {"url": "http://127.0.0.1:9/mcp"}
        }


async def test_a_server_is_added_as_other_programs_describe_it() -> None:
    with TempHome({}) as home:
        program = {"type": "stdio", "command": SERVER[0], "args": SERVER[1:], "env": {"API_TOKEN": KEY, "REGION": "eu"}}
        done = await run_hermes(home, "mcp", "add-json", "srv", json.dumps(program))
        assert done.code == 0 and "srv: ready in" in done.stdout and KEY not in done.stdout, done
        address = {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
        assert (await run_hermes(home, "mcp", "add-json", "docs", json.dumps(address), "--no-test")).code == 0
        assert yaml.safe_load((home.hermes / "config.yaml").read_text())["mcp_servers"] == {
            "srv": {
                "command": SERVER[0],
                "args": list(SERVER[1:]),
                "env": {"API_TOKEN": "${MCP_SRV_API_TOKEN}", "REGION": "eu"},
            },
            "docs": {"url": "https://a.example/mcp", "headers": {"Authorization": "${MCP_DOCS_AUTHORIZATION}"}},
        }
        for text in ("{", "[]", '{"comand": "x"}', '{"args": 1}'):
            wrong = await run_hermes(home, "mcp", "add-json", "x", text)
            assert (wrong.code, wrong.stderr.count("\n")) == (2, 1) and "This describes no server" in wrong.stderr


async def test_options_of_a_program_need_the_two_dashes_and_are_told_so() -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "mcp", "add", "files", "npx", "-y", "some-server")
        assert done.code == 2 and "-y is no option here." in done.stderr and "behind `--`" in done.stderr
        done = await run_hermes(home, "mcp", "add", "x", "-t", "http", "--", "cat")
        assert done.code == 2 and "--transport http does not fit what is given" in done.stderr
        assert "mcp_servers" not in (home.hermes / "config.yaml").read_text()


async def test_a_path_among_the_words_means_the_folder_it_was_typed_in() -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "mcp", "add", "files", "--no-test", "--", "server", "--root", ".")
        assert done.code == 0
        found = yaml.safe_load((home.hermes / "config.yaml").read_text())["mcp_servers"]["files"]
        assert found == {"command": "server", "args": ["--root", "."], "cwd": str(home.cwd)}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x",), "A server is a program or an address."),
        (("x", "--url", "https://a.example", "--", "y"), "A server is a program or an address."),
        (("x y", "--", "y"), "cannot be a server's name"),
        (("x", "--url", "ftp://a.example"), "begins with https://"),
        (("x", "--env", "A B=c", "--", "y"), "--env takes NAME=VALUE"),
        (("x", "--url", "https://a.example", "--header", "nothing"), "--header takes"),
        (("x", "--", "server", "--token", KEY), "A key in an address or an argument"),
        (("x", "--url", f"https://me:{KEY}@a.example/mcp"), "A key in an address or an argument"),
    ],
)
async def test_what_cannot_be_added_is_told_and_nothing_is_written(words: tuple[str, ...], says: str) -> None:
    with TempHome({"agent": {"max_turns": 3}}) as home:
        before = sorted((one.name, one.read_bytes()) for one in home.hermes.iterdir() if one.is_file())
        done = await run_hermes(home, "mcp", "add", *words)
        assert (done.code, says in done.stderr, KEY in done.stderr) == (2, True, False), done
        assert sorted((one.name, one.read_bytes()) for one in home.hermes.iterdir() if one.is_file()) == before
