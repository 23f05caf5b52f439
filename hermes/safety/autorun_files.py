"""The files that programs obey later without being asked: settings of editors, agents, shells and git, and what is run
at its time. Which they are is said by their names; a repository by its shape.

Paths come in resolved; nothing is opened here.
"""

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Iterator

_NAMES = frozenset(
    str.split(".envrc .mcp.json opencode.json opencode.jsonc .nvim.lua .nvimrc .exrc .irbrc .pdbrc .mise.toml")
)
"""Files that are obeyed in any folder."""
_SUFFIX = ".code-workspace"
_NAMES_IN = {
    folder: frozenset(names.split())
    for folder, names in {
        ".vscode": "tasks.json launch.json settings.json mcp.json",
        ".idea": "tasks.json launch.json settings.json workspace.xml",
        ".zed": "tasks.json launch.json settings.json debug.json",
        ".claude": "settings.json settings.local.json",
        ".cursor": "mcp.json hooks.json",
        ".roo": "mcp.json",
        ".codex": "config.toml hooks.json",
        ".gemini": "settings.json",
        ".helix": "languages.toml config.toml",
    }.items()
}
"""Files that are obeyed in a folder of that name."""
_FOLDERS = (
    *(".husky", ".githooks", ".idea/runConfigurations"),
    *(f".opencode/{name}" for name in ("plugin", "plugins", "tool", "tools")),
)
"""Folders of which every file is obeyed."""
PROJECT_FILES = (
    *sorted(_NAMES),
    *(f"{folder}/{name}" for folder, names in _NAMES_IN.items() for name in sorted(names)),
    *_FOLDERS,
)
"""Files that editors and other tools obey in the folder that they are opened in."""
_OBEYED_NAMES = re.compile(
    "/(?:{})$|/[^/]+{}$|/(?:{})/".format(
        "|".join(re.escape(one) for one in PROJECT_FILES if one not in _FOLDERS),
        re.escape(_SUFFIX),
        "|".join(map(re.escape, _FOLDERS)),
    )
)
_DEPENDENCIES = re.compile(r"/(?:node_modules|site-packages|\.venv|vendor)(?:/|$)")
_GIT_PARTS = frozenset(("config", "config.worktree", "commondir", "HEAD", "hooks", "objects", "refs"))
_GIT_FILES = frozenset(("config", "config.worktree", "commondir", "HEAD"))


def is_project_setting(path: str) -> bool:
    """Return whether a program obeys what is written to this path (absolute), in whatever folder it lies."""
    return _OBEYED_NAMES.search(path) is not None


def find_project_settings(folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names in a folder (absolute) that programs obey; none in folders of dependencies."""
    if _DEPENDENCIES.search(folder):
        return
    above, _, last = folder.rpartition("/")
    whole = last in _FOLDERS or f"{above.rpartition('/')[2]}/{last}" in _FOLDERS
    known = _NAMES_IN.get(last, frozenset())
    yield from (one for one in names if whole or one in _NAMES or one in known or one.endswith(_SUFFIX))


def is_git_shaped(names: Collection[str]) -> bool:
    """Return whether git takes a folder with these entries for a repository, or soon may."""
    return any(
        shape <= frozenset(names)
        for shape in (frozenset(("objects", "refs")), frozenset(("HEAD", "commondir")), frozenset(("HEAD", "config")))
    )


def split_git_target(path: str) -> Iterator[tuple[str, str]]:
    """Yield each folder above a path in which the path would be a part of a repository, with the name of that part."""
    parts = path.split("/")
    for number in range(1, len(parts)):
        name, depth = parts[number], len(parts) - number
        is_part = name in _GIT_PARTS and (depth == 1 if name in _GIT_FILES else depth > 1)
        if is_part or parts[number:] in (["info", "attributes"], ["info", "exclude"]):
            yield "/".join(parts[:number]) or "/", name


def completes_repository(part: str, names: Collection[str]) -> bool:
    """Return whether writing a part of a repository into a folder with these entries changes or makes a repository.

    Folders called `objects` and `refs` are ordinary where no `HEAD` stands beside them.
    """
    if part in ("objects", "refs") and "HEAD" not in names:
        return False
    return is_git_shaped({*names, part})


OBEYED_REASON = "programs such as git, an editor or another agent run what it says"


def repository_refusal(path: str, list_names: Callable[[str], Collection[str]]) -> str:
    """Return why `path` (absolute, resolved) may not be written, as a part of a git repository under any name.

    Empty when it is none. `list_names` gives the entries of a folder, none for one that is missing.
    """
    parts = split_git_target(path)
    return OBEYED_REASON if any(completes_repository(part, list_names(folder)) for folder, part in parts) else ""


_AUTORUN_NAMES = frozenset(
    str.split("""
    makefile gnumakefile makefile.am cmakelists.txt justfile rakefile gemfile vagrantfile dockerfile
    containerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml package.json .npmrc .yarnrc
    .yarnrc.yml setup.py setup.cfg pyproject.toml tox.ini noxfile.py pytest.ini conftest.py sitecustomize.py
    usercustomize.py manage.py .pre-commit-config.yaml .envrc .env.sh .gitattributes .gitmodules .gitlab-ci.yml
    .travis.yml jenkinsfile azure-pipelines.yml build.gradle build.gradle.kts settings.gradle pom.xml build.rs
    cargo.toml build.sbt mix.exs composer.json gulpfile.js gruntfile.js webpack.config.js vite.config.js
    vite.config.ts jest.config.js babel.config.js .eslintrc.js eslint.config.js tsconfig.json deno.json
    lefthook.yml procfile agents.md claude.md gemini.md soul.md .hermes.md .cursorrules .windsurfrules .mcp.json
    mcp.json skill.md copilot-instructions.md .inputrc .bashrc .profile .zshrc .vimrc .exrc .lldbinit .gdbinit
    """)
)


_AUTORUN_SUFFIXES = (
    ".sh",
    ".bash",
    ".zsh",
    ".pth",
    ".service",
    ".timer",
    ".desktop",
    ".plist",
    ".cron",
    ".mk",
    ".bat",
    ".ps1",
)


_AUTORUN_FOLDERS = re.compile(
    r"/(\.github/workflows|\.github/actions|\.circleci|\.husky|\.githooks|\.git|\.vscode|\.idea|\.devcontainer|\.claude|"
    r"\.cursor|\.cargo|cron\.[a-z]+|\.config/(systemd|autostart)|skills|hooks)(/|$)",
    re.IGNORECASE,
)


def is_autorun_file(path: str) -> bool:
    """Return whether programs will run, or agents obey, a file written to this path."""
    name = os.path.basename(path).lower()
    return name in _AUTORUN_NAMES or name.endswith(_AUTORUN_SUFFIXES) or _AUTORUN_FOLDERS.search(path) is not None
