"""How each program is pointed at the scripted server: configuration, command line, the tool that reads a file."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from hermes.testing.home import TempHome

OWN = "hermes (ours)"
TEXT = "Read the file as you are told."
READ = '{"path": "PATH", "offset": {n}, "limit": 1}'
WINDOW = 2_000_000


@dataclass(frozen=True)
class Program:
    """A measured program. `configure(home, url)` writes its files and returns more environment."""

    name: str
    prompt: Callable[[TempHome], list[str]]
    configure: Callable[[TempHome, str], dict[str, str]]
    tool: str = "read_file"
    arguments: str = READ
    command: tuple[str, ...] = ()


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def _hermes(home: TempHome, url: str) -> dict[str, str]:
    model = {"default": "mock-model", "provider": "custom", "base_url": url, "api_key": "x", "context_length": WINDOW}
    _write(home.hermes / "config.yaml", yaml.safe_dump({"model": model, "agent": {"max_turns": 2000}}))
    return {}


def _nanobot(home: TempHome, url: str) -> dict[str, str]:
    defaults = {
        "model": "mock-model",
        "provider": "custom",
        "workspace": str(home.cwd),
        "maxToolIterations": 2000,
        "contextWindowTokens": WINDOW,
    }
    providers = {"custom": {"apiKey": "x", "apiBase": url}}
    _write(home.home / "nanobot.json", {"agents": {"defaults": defaults}, "providers": providers})
    return {}


def _pi(home: TempHome, url: str) -> dict[str, str]:
    model = {"id": "mock-model", "contextWindow": WINDOW, "maxTokens": 8000}
    mock = {"baseUrl": url, "api": "openai-completions", "apiKey": "x", "models": [model]}
    _write(home.home / ".pi/agent/models.json", {"providers": {"mock": mock}})
    return {}


def _opencode(home: TempHome, url: str) -> dict[str, str]:
    limit = {"context": WINDOW, "output": 8000}
    mock = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "mock",
        "options": {"baseURL": url, "apiKey": "x"},
        "models": {"mock-model": {"name": "mock", "tool_call": True, "limit": limit}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "permission": {"*": "allow"},
        "provider": {"mock": mock},
    }
    _write(Path(home.environ["XDG_CONFIG_HOME"]) / "opencode/opencode.json", config)
    return {}


def _codex(home: TempHome, url: str) -> dict[str, str]:
    top = f'model = "mock-model"\nmodel_provider = "mock"\nmodel_context_window = {WINDOW}\n'
    provider = f'name = "mock"\nbase_url = "{url}"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    _write(home.home / ".codex/config.toml", f"{top}\n[model_providers.mock]\n{provider}")
    return {"CODEX_HOME": str(home.home / ".codex"), "OPENAI_API_KEY": "x"}


def own_program(path: str) -> Program:
    """Hermes itself: the command at `path`, or this source tree's package."""
    command = (path,) if path else (sys.executable, "-m", "hermes")
    return Program(OWN, lambda _: [*command, "-z", TEXT], _hermes, command=command)


def _nanobot_prompt(home: TempHome) -> list[str]:
    session = f"bench:{time.monotonic_ns()}"  # else every run goes on with the one before
    return ["agent", "-c", str(home.home / "nanobot.json"), "--no-tui", "-s", session, "-m", TEXT]


_PEERS = {
    "hermes-agent": Program("", lambda _: ["-z", TEXT], _hermes),
    "nanobot": Program("", _nanobot_prompt, _nanobot),
    "pi": Program("", lambda _: ["-p", "--provider", "mock", "--model", "mock-model", TEXT], _pi, "read"),
    "opencode": Program("", lambda _: ["run", TEXT], _opencode, "read", READ.replace("path", "filePath")),
    "codex": Program(
        "",
        lambda _: ["exec", "--skip-git-repo-check", TEXT],
        _codex,
        "exec_command",
        '{"cmd": "sed -n {n}p PATH"}',
    ),
}


def peer(entry: str) -> Program:
    """A program to compare with, from `NAME=PATH`."""
    name, _, path = entry.partition("=")
    if name not in _PEERS or not Path(path).exists():
        raise SystemExit(f"{entry!r} is not NAME=PATH of an installed program; names: {', '.join(_PEERS)}")
    made = _PEERS[name]
    return replace(made, name=name, command=(path,), prompt=lambda home: [path, *made.prompt(home)])
