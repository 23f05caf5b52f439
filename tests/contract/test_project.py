"""Promises of the project about itself: what importing costs, what the documents say, what the tree may not hold."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import hermes
from bench.paths import record_prompt
from hermes.config import display, gateway, settings, speech, tool_settings
from hermes.config.keys import KNOWN_ELSEWHERE
from hermes.providers.records import list_provider_names, load_record

ROOT = Path(hermes.__file__).parent.parent


def modules_after(code: str) -> set[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_values_import_no_io() -> None:
    loaded = modules_after("import hermes.core.events, hermes.core.frame, hermes.core.protocols")
    assert not {"asyncio", "httpx2", "apsw", "yaml", "ssl"} & loaded


def test_the_runtime_stays_small_and_without_heavy_libraries() -> None:
    loaded = modules_after("import hermes.runtime.actor, hermes.sessions.app")
    assert len(loaded) <= 350
    assert not {"httpx2", "anyio", "yaml", "xllamacpp", "rich", "pydantic", "importlib.metadata"} & loaded


def test_help_imports_next_to_nothing() -> None:
    loaded = modules_after("from hermes.cli.main import main; main(['--help'])")
    assert not {"asyncio", "msgspec", "argparse", "hermes.sessions.app"} & loaded


@pytest.mark.slow
def test_a_single_question_stays_light() -> None:
    """`python -m bench.paths --files` lists what it imports and enters."""
    plain, command = record_prompt(), record_prompt(tool="terminal")
    assert len(plain["modules"]) <= 190
    assert not [one for one in plain["modules"] if one.startswith("hermes.speech")]
    # With `sessions/turn_log.py`: each turn writes its line; `cli/piped_input.py`: what is piped goes along; and
    # `tools/tool.py`: whether what a tool requires is there.
    assert len(plain["files"]) <= 113
    assert len(set(command["files"]) - set(plain["files"])) <= 65


def described(struct: type) -> list[tuple[str, type]]:
    found = []
    for field in msgspec.structs.fields(struct):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found += [(f"{field.name}.{name}", kind) for name, kind in described(inner)]
        else:
            found.append((field.name, struct))
    return found


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    parts = (settings, display, gateway, speech, tool_settings)
    source = "".join(Path(one.__file__).read_text("utf-8") for one in parts)
    for name, _ in described(settings.Settings):
        assert f"`{name}`" in text, f"docs/configuration.md does not name {name}"
        assert re.search(rf'    {name.rpartition(".")[2]}: .*\n    """', source), f"{name} has no docstring"


def test_every_provider_is_documented_as_it_is() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    for name in list_provider_names():
        found = load_record(name)
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "")
        assert row.endswith("| yes |" if found.tested else "| no |"), f"docs/configuration.md on {name}: {row!r}"
        assert not found.key_variables or found.key_variables[0] in row, name
        assert not found.base_url or found.base_url in row, name


def test_every_top_level_setting_is_a_known_key() -> None:
    assert {
        "model",
        "agent",
        "terminal",
        "approvals",
        "tool_output",
        "toolsets",
        "command_allowlist",
    } <= KNOWN_ELSEWHERE


def test_the_readmes_name_commands_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for readme in ("README.md", "README.zh-CN.md"):
        for target in re.findall(r"^make (\w+)", (ROOT / readme).read_text("utf-8"), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{readme} names make {target}"


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_links_lead_somewhere(readme: str) -> None:
    file = ROOT / readme
    for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text("utf-8")):
        assert (file.parent / target).exists(), f"{readme} links to {target}"


@pytest.mark.parametrize("file", ["Dockerfile", "Makefile", "action.yml", "pyproject.toml"])
def test_pages_that_are_named_beside_the_code_exist(file: str) -> None:
    for page in re.findall(r"docs/[\w/-]+\.md", (ROOT / file).read_text("utf-8")):
        assert (ROOT / page).exists(), f"{file} names {page}"


def test_locks_hold_names_versions_and_hashes_only() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text("utf-8")
        assert "://" not in text
        assert "--hash=sha256:" in text


def test_the_suite_cannot_reach_the_network() -> None:
    with socket.socket() as outside, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        outside.connect(("192.0.2.1", 9))
    with pytest.raises(RuntimeError, match=r"example\.com"):
        socket.getaddrinfo("example.com", 80)


def test_no_private_key_lies_in_the_tree() -> None:
    """Keys of tests are made when they run: a file of one that was left behind would be published."""
    key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{100}")
    folders = [ROOT / name for name in ("hermes", "tests", "bench", "docs", "scripts", "requirements")]
    files = [*ROOT.glob("*"), *(path for folder in folders for path in folder.rglob("*"))]
    found = [path for path in files if path.is_file() and path.suffix != ".pyc" and key.search(path.read_bytes())]
    assert len(files) > 2_000 and found == []
