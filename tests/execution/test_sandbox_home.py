"""What commands in a sandbox see of homes: the workspace, tool chains, and what a person opened."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.home_rows import find_homes, home_rows
from hermes.execution.sandbox.planted_files import PlantedFiles
from hermes.execution.sandbox.policy import SandboxPolicy, build_layout, find_code_paths, find_own_git_folders
from hermes.execution.sandbox.probe import SandboxMechanism
from hermes.execution.supervisor import Supervisors
from tests.execution.test_sandbox import PROBES, WAYS, Case, policy
from tests.requirements import require_sandbox

FILES = (
    *("Documents/letter", "notes", ".someapp/token", ".config/app/settings", ".bash_logout", "code/other/secret"),
    *(".cargo/bin/tool", ".cargo/credentials.toml", ".pyenv/versions/x", ".gitconfig", ".config/git/ignore"),
    *(".config/git/credentials", "tools/jdk/bin/java", ".codex/auth.json"),
)


def hidden(made: SandboxPolicy, environ: Mapping[str, str] = {}) -> SandboxPolicy:
    """The same as sessions of the owner have it."""
    homes = find_homes(made.places)
    rows = home_rows(made.places, homes, environ, find_code_paths())
    return replace(made, homes=homes, readable=tuple(rows), git_folders=find_own_git_folders(made.places))


def fill(home: Path) -> None:
    for name in FILES:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# <{name}>\n")


@pytest.fixture(params=WAYS)
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    held = await PROBES[request.param].find_support()
    require_sandbox(request.param, held.is_usable, held.reason)
    folder = tmp_path.resolve()
    fill(folder / "home")
    work = folder / "home/code/proj"
    work.mkdir(parents=True)
    made = Case(folder, request.param)
    places = replace(made.policy.places, workspace=str(work))
    path = os.pathsep.join((str(folder / "home/tools/jdk/bin"), os.environ["PATH"]))
    made.policy = hidden(replace(made.policy, places=places), {"PATH": path})
    made.work = work
    made.backend = SandboxBackend({**os.environ, "HOME": places.home}, made.policy, probe=PROBES[request.param])
    yield made
    await made.backend.close()


@pytest.mark.needs("git")
async def test_of_the_home_tool_chains_are_seen(case: Case) -> None:
    for name in FILES:
        await case.run(f"cat ~/{name}")
        chain = name.startswith((".cargo/bin", ".pyenv", ".config/git/ignore", "tools/jdk/bin"))
        assert (f"<{name}>" in case.text) is chain, name
    assert (await case.run("grep -rl '<' ~ 2>/dev/null | grep -cv -e /.cargo/bin/ -e /.pyenv/ -e git -e java")).code
    assert (await case.run("echo x > a && git init -q . && git add a && cat a")).code == 0 and case.text == "x\n"
    assert (await case.run("echo x > ~/.cargo/bin/new")).code and not (case.folder / "home/.cargo/bin/new").exists()


async def test_what_was_granted_is_seen_and_written(case: Case) -> None:
    case.backend.grant_write(str(case.folder / "home/Documents"))
    assert (await case.run("cat ~/Documents/letter && echo x > ~/Documents/new")).code == 0
    assert (case.folder / "home/Documents/new").exists()


async def test_what_settings_name_is_seen_and_written(case: Case) -> None:
    writable = (str(case.folder / "home/Documents"),)
    case.remake(replace(case.policy, writable=writable))
    assert (await case.run("cat ~/Documents/letter && echo x > ~/Documents/new && ! cat ~/notes")).code == 0


@pytest.mark.needs("git")
async def test_a_link_to_a_tool_chain_is_there(case: Case) -> None:
    home = case.folder / "home"
    (home / "dotfiles/bin").mkdir(parents=True)
    (home / "dotfiles/bin/tool").write_text("a tool\n")
    (home / "dotfiles/gitconfig").write_text("[user]\n\tname = ann\n")
    (home / "dotfiles/other").write_text("else\n")
    (home / ".gitconfig").unlink()
    (home / ".gitconfig").symlink_to("dotfiles/gitconfig")
    (home / ".local").mkdir()
    (home / ".local/bin").symlink_to(home / "dotfiles/bin")
    assert (await case.run("cat ~/.local/bin/tool && git config user.name")).code == 0
    assert case.text == "a tool\nann\n"
    assert (await case.run("cat ~/dotfiles/other")).code and "else" not in case.text


def test_a_key_place_is_no_tool_chain(tmp_path: Path) -> None:
    made = policy(tmp_path.resolve())
    home = made.places.home
    Path(home, ".pyenv").symlink_to(".ssh")
    Path(home, ".aws/bin").mkdir(parents=True)
    layout = build_layout(hidden(made, {"PATH": f"{home}:{home}/.aws/bin:relative"}))
    for name in (".ssh/id_ed25519", ".aws/bin/x", "notes"):
        assert layout.access_of(f"{home}/{name}") is PathAccess.HIDDEN, name
    assert layout.access_of(f"{home}/.ssh/known_hosts") is PathAccess.READ


def test_of_a_home_that_is_the_workspace_entries_without_a_dot_are_seen(tmp_path: Path) -> None:
    made = policy(tmp_path.resolve())
    home = made.places.home
    for name in ("docs", ".config/app", ".cargo/bin", ".git/objects", "bin"):
        Path(home, name).mkdir(parents=True)
    for workspace in (home, str(tmp_path.resolve())):
        whole = replace(made, places=replace(made.places, workspace=workspace))
        layout = build_layout(hidden(whole))
        assert layout.paths_with(PathAccess.WRITE) == [f"{home}/docs"]
        for name in (".config/app", ".someapp", "new", ".config"):
            assert layout.access_of(f"{home}/{name}") is PathAccess.HIDDEN, name
        for name in (".cargo/bin/tool", ".git/objects", "bin/tool"):
            assert layout.access_of(f"{home}/{name}") is PathAccess.READ, name


async def test_a_session_of_the_owner_has_it(tmp_path: Path) -> None:
    from hermes.config.settings import Settings
    from hermes.sessions.backend_factory import BackendFactory

    made = policy(tmp_path.resolve())
    settings = Settings()
    settings = replace(settings, terminal=replace(settings.terminal, backend="sandbox"))
    supervisors = Supervisors({})
    handle, _ = BackendFactory({"PATH": "/usr/bin"}, settings, lambda: supervisors).create_backend(made.places, 0)
    backend = handle.get()
    assert isinstance(backend, SandboxBackend)
    shown = {row.path for row in backend._policy.readable}
    assert backend._policy.homes[0] == made.places.home and f"{made.places.home}/.cargo/bin" in shown
    assert backend._policy.unreadable == ()


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(
    "name",
    ["sub/.claude/settings.json", "sub/.mcp.json", ".codex/config.toml", "opencode.json", "a/b/.vscode/tasks.json",
     ".opencode/plugin/x.js", "x.code-workspace", "sub/.envrc", ".idea/runConfigurations/x.xml"],
)  # fmt: skip
async def test_settings_that_a_command_makes_are_moved_aside(tmp_path: Path, name: str) -> None:
    held = await PROBES[SandboxMechanism.BUBBLEWRAP].find_support()
    require_sandbox("bubblewrap", held.is_usable, held.reason)
    case = Case(tmp_path.resolve(), SandboxMechanism.BUBBLEWRAP)
    (case.work / "sub").mkdir()
    await case.run(f"mkdir -p $(dirname {name}) && echo bad > {name}")
    assert not (case.work / name).exists() and f"{case.work / name} was made by a command" in case.text
    await case.backend.close()


def test_deeper_settings_of_the_persons_are_put_back_and_clones_stay(tmp_path: Path) -> None:
    own = tmp_path / "sub/.claude/settings.json"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    plants, roots = PlantedFiles(), [str(tmp_path)]
    plants.record_baseline(roots)
    own.write_text("theirs")
    for name in (
        "clone/.git/HEAD",
        "clone/.git/config",
        "clone/.vscode/settings.json",
        "sub/.git/HEAD",
        "sub/.git/config",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[core]\n")
    for name in ("sub/.mcp.json", "node_modules/x/.envrc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("bad")
    for _ in range(2):
        plants.quarantine_new(roots, lambda path: False)
        assert own.read_text() == "mine" and not (tmp_path / "sub/.mcp.json").exists()
        assert (tmp_path / "clone/.vscode/settings.json").exists() and (tmp_path / "node_modules/x/.envrc").exists()
        plants.record_baseline(roots)
        (tmp_path / "sub/.mcp.json").write_text("bad again")


async def test_a_home_in_a_folder_for_temporary_files_is_hidden_too(case: Case) -> None:
    """Landlock makes no such folder of a session's own, and the machine's stays in sight."""
    case.remake(replace(case.policy, private=(str(case.folder),)))
    assert (await case.run("cat ~/Documents/letter")).code and "letter>" not in case.text
    assert (await case.run("cat ~/.codex/auth.json")).code and "auth" not in case.text.replace(".codex/auth.json:", "")
    assert (await case.run("echo x > a && cat a ~/.cargo/bin/tool")).code == 0
    assert case.text == "x\n# <.cargo/bin/tool>\n"
