"""The files that programs obey later without being asked, as one table: which they are, who obeys them, and whether a
session may write them, with untrusted content in its conversation and without. A repository is known by its shape.

Every way to a file goes by this table: file tools, the look after commands, taint, and the copy from another host.
Paths come in resolved; nothing is opened here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import IntEnum

from msgspec import Struct

OBEYED_REASON = "programs such as git, an editor or another agent run what it says"
HELD_SUFFIX = ".held"
"""The ending of a file that was moved aside since programs would have obeyed it: nothing obeys that name."""


class WriteRule(IntEnum):
    """What happens when a session writes a file that is obeyed later; the stricter rule is the higher one."""

    FREE = 0
    ASKED = 1
    """A person is asked where a call names it; what a program writes unseen stays, and is marked with the sources."""
    REFUSED = 2
    """File tools do not write it, and what a command has made is moved aside."""


class ObeyedRow(Struct, frozen=True):
    """A kind of file that is obeyed in any folder, and what happens when it is written.

    `pattern` is the last names of a path. One that ends with `/` is a folder of which every file is obeyed; `*.x` is
    any name with that ending; `a/**/b` is b anywhere below a. Case does not count: it does not on every file system.
    """

    pattern: str
    reader: str
    clean: WriteRule
    tainted: WriteRule


INSTRUCTIONS = "instructions to agents"
REPOSITORY = "git's own folder"
"""The rows that commands may change, since git does: the look after them goes by what is in there."""
_NEVER_WRITTEN = {
    "other agents": """
        .mcp.json opencode.json opencode.jsonc crush.json .crush.json .aider.conf.yml .claude/settings.json
        .claude/settings.local.json .cursor/mcp.json .cursor/hooks.json .roo/mcp.json .kilocode/mcp.json .trae/mcp.json
        .codex/config.toml .codex/hooks.json .gemini/settings.json .qwen/settings.json .amazonq/mcp.json
        .kiro/settings/mcp.json .kiro/hooks/ .junie/mcp/mcp.json .opencode/plugin/ .opencode/plugins/ .opencode/tool/
        .opencode/tools/ .clinerules/hooks/ .windsurf/hooks.json .github/hooks/ .continue/mcpservers/ .amp/settings.json
        .factory/settings.json .factory/mcp.json
    """,
    "editors": """
        .vscode/tasks.json .vscode/launch.json .vscode/settings.json .vscode/mcp.json *.code-workspace .idea/tasks.json
        .idea/launch.json .idea/settings.json .idea/workspace.xml .idea/runconfigurations/ .idea/startup.xml
        .idea/watchertasks.xml .run/ .vs/tasks.vs.json .vs/launch.vs.json .lite_project.lua .lazy.lua .fleet/run.json
        .fleet/settings.json .zed/tasks.json .zed/launch.json .zed/settings.json .zed/debug.json .helix/languages.toml
        .helix/config.toml .nvim.lua .nvimrc .exrc .lvimrc
    """,
    "shells and interpreters": """
        .envrc .shadowenv.d/ .autoenv .autoenv.zsh .rvmrc .mise.toml .mise.local.toml .mise/config.toml mise.local.toml
        mise/config.toml .config/mise.toml .config/mise/ .irbrc .pdbrc .pryrc .ghci .iex.exs .ocamlinit .octaverc
    """,
    "git": ".githooks/ .husky/",
    "other version control": """
        .hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .jj/repo/config.toml .jj/workspace-config.toml
        .pijul/config _darcs/prefs/defaults
    """,
    REPOSITORY: """
        .git .git/config .git/config.worktree .git/commondir .git/hooks/ .git/info/attributes .git/info/exclude
        .git/rebase-merge/ .git/rebase-apply/ .git/sequencer/ .git/modules/**/hooks/ .git/modules/**/config
        .git/worktrees/**/config .git/worktrees/**/config.worktree
    """,
}
"""What no session writes, by who obeys it."""
_ASKED_IF_TAINTED = {
    INSTRUCTIONS: """
        agents.md agent.md claude.md claude.local.md gemini.md qwen.md soul.md hermes.md .hermes.md skill.md
        .hermes/commands/ .hermes/agents/ .hermes/plugins/ copilot-instructions.md .cursorrules .windsurfrules
        .goosehints .junie/guidelines.md .cursor/ .claude/ .roo/ .clinerules/ .windsurf/ .kiro/ .gemini/ .codex/
        .opencode/ .github/instructions/ .github/prompts/ skills/
    """,
    "builds and tests": """
        makefile gnumakefile makefile.am cmakelists.txt justfile rakefile gemfile vagrantfile dockerfile containerfile
        docker-compose.yml docker-compose.yaml compose.yml compose.yaml package.json .npmrc .yarnrc .yarnrc.yml setup.py
        setup.cfg pyproject.toml tox.ini .coveragerc .pylintrc pylintrc .flake8 mypy.ini noxfile.py tasks.py fabfile.py
        dodo.py pytest.ini conftest.py sitecustomize.py usercustomize.py manage.py .pre-commit-config.yaml
        .pre-commit-hooks.yaml .lintstagedrc .gitattributes .gitmodules build.gradle build.gradle.kts settings.gradle
        settings.gradle.kts pom.xml build.rs cargo.toml build.sbt mix.exs composer.json gulpfile.js gruntfile.js
        *.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts .eslintrc.js .eslintrc.cjs .prettierrc.js
        .mocharc.js .pnpmfile.cjs pnpm-workspace.yaml bunfig.toml turbo.json nx.json tsconfig.json deno.json deno.jsonc
        gradlew mvnw gradle.properties .mvn/ .bazelrc build.bazel module.bazel meson.build configure configure.ac
        build.zig flake.nix shell.nix default.nix devenv.nix devbox.json magefile.go phpunit.xml .rspec .rubocop.yml
        guardfile podfile fastfile dangerfile tiltfile earthfile snakefile .air.toml .tool-versions .tmuxinator.yml
        lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml lefthook.toml lefthook-local.yml lefthook-local.yaml
        procfile mise.toml .devcontainer.json taskfile.yml .env.sh .dir-locals.el .rprofile mcp.json .vscode/ .idea/
        .devcontainer/ .cargo/ .git/ hooks/ *.mk *.pth pyvenv.cfg .venv/bin/ venv/bin/ .venv/scripts/ venv/scripts/
    """,
    "continuous integration": """
        .github/workflows/ .github/actions/ .gitea/workflows/ .forgejo/workflows/ .circleci/ .buildkite/ .woodpecker/
        .gitlab-ci.yml .travis.yml .drone.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml .cirrus.yml
        appveyor.yml
    """,
    "the machine": """
        *.sh *.bash *.zsh *.service *.timer *.desktop *.plist *.cron *.bat *.ps1 cron.d/ cron.hourly/ cron.daily/
        cron.weekly/ cron.monthly/ .config/systemd/ .config/autostart/ .inputrc .bashrc .bash_profile .bash_login
        .bash_aliases .profile .zshrc .zshenv .zprofile .vimrc .lldbinit .gdbinit
    """,
}
"""What a session writes freely, and asks about beside untrusted content."""
OBEYED_ROWS = tuple(
    ObeyedRow(pattern, reader, clean, tainted)
    for table, clean, tainted in (
        (_NEVER_WRITTEN, WriteRule.REFUSED, WriteRule.REFUSED),
        (_ASKED_IF_TAINTED, WriteRule.FREE, WriteRule.ASKED),
    )
    for reader, patterns in table.items()
    for pattern in patterns.split()
)
_IN_PACKAGES = ObeyedRow("node_modules/", "whoever opens a package as a project", WriteRule.FREE, WriteRule.ASKED)
"""The row of settings that a package manager brings: they are obeyed where somebody opens the package itself."""
_PACKAGES = frozenset(("node_modules", "site-packages", ".venv"))
_GIT_PARTS = frozenset(
    str.split("config config.worktree commondir HEAD hooks objects refs rebase-merge rebase-apply sequencer")
)
_GIT_FILES = frozenset(("config", "config.worktree", "commondir", "HEAD"))
_Index = dict[str, tuple[tuple[tuple[str, ...], ObeyedRow], ...]]


def _build_indexes() -> tuple[_Index, _Index]:
    """Return the rows by the last name of a path, endings by themselves among them, and by the name of a folder."""
    by_name: _Index = {}
    by_folder: _Index = {}
    for row in OBEYED_ROWS:
        *above, last = row.pattern.removesuffix("/").split("/")
        index = by_folder if row.pattern.endswith("/") else by_name
        index[last] = (*index.get(last, ()), (tuple(above), row))
    return by_name, by_folder


_BY_NAME, _BY_FOLDER = _build_indexes()
_ENDINGS = tuple(name[1:] for name in _BY_NAME if name.startswith("*"))

_SETTINGS = tuple(row for row in OBEYED_ROWS if row.clean is WriteRule.REFUSED and row.reader != REPOSITORY)
SETTING_FOLDERS = frozenset(
    names[:number] for row in _SETTINGS for names in [tuple(row.pattern.split("/"))] for number in range(1, len(names))
)
"""The folders that settings are known by, with those above them: a link may stand for each."""
_SETTING_FOLDER_NAMES = frozenset(one[-1] for one in SETTING_FOLDERS)
_SETTING_ENDINGS = tuple(row.pattern[1:] for row in _SETTINGS if row.pattern.startswith("*"))


def find_obeyed_row(path: str) -> ObeyedRow | None:
    """Return the strictest row of the table that a path (absolute) belongs to, or None."""
    names = path.casefold().split("/")
    found = _match_rows(names)
    if not found:
        return None
    row = max(found, key=lambda one: one.clean)
    return _IN_PACKAGES if row.clean is WriteRule.REFUSED and not _PACKAGES.isdisjoint(names) else row


def _match_rows(names: list[str]) -> list[ObeyedRow]:
    """Return the rows that a path belongs to, by its names; one by which it is obeyed in two ways is there twice."""
    return [row for at, above, row in _list_rows(names) if _lies_in(names, at, above)]


def _list_rows(names: list[str]) -> Iterator[tuple[int, tuple[str, ...], ObeyedRow]]:
    """Yield the rows that have a name of a path, each with the place of the name and the folders that must be above."""
    yield from ((len(names) - 1, *one) for one in _BY_NAME.get(names[-1], ()))
    if names[-1].endswith(_ENDINGS):
        yield from ((0, (), row) for one in filter(names[-1].endswith, _ENDINGS) for _, row in _BY_NAME[f"*{one}"])
    if not _BY_FOLDER.keys().isdisjoint(names):  # of thousands of files at once few lie in one
        yield from ((at, *one) for at, name in enumerate(names) for one in _BY_FOLDER.get(name, ()))


def _lies_in(names: list[str], number: int, above: tuple[str, ...]) -> bool:
    """Return whether the name at that place of a path lies in the folders that a row names."""
    if above[-1:] == ("**",):
        wanted = "/".join(above[:-1])
        return f"/{wanted}/" in "/".join((*names[:number], ""))
    return not above or tuple(names[max(0, number - len(above)) : number]) == above


def is_autorun_file(path: str) -> bool:
    """Return whether programs will run, or agents obey, a file written to this path."""
    return find_obeyed_row(path) is not None


def is_never_written(path: str) -> bool:
    """Return whether a program obeys what is written to this path (absolute) without being asked."""
    row = find_obeyed_row(path)
    return row is not None and row.clean is WriteRule.REFUSED


def is_instruction_file(path: str) -> bool:
    """Return whether agents take what is written to this path for instructions."""
    row = find_obeyed_row(path)
    return row is not None and row.reader == INSTRUCTIONS


def find_settings(folder: str, names: Iterable[str], links: Collection[str]) -> Iterator[str]:
    """Yield the names in a folder (absolute) that are moved aside when a command has made them.

    `links` are those of the names that are links: one can stand for a whole folder of such files.
    """
    in_package = not _PACKAGES.isdisjoint(folder.split("/"))
    whole = is_setting(f"{folder}/-")
    for name in () if in_package else names:
        plain = name.casefold()
        known = plain in _BY_NAME or plain.endswith(_SETTING_ENDINGS)
        if (
            whole
            or (known and is_setting(f"{folder}/{name}"))
            or (name in links and plain in _SETTING_FOLDER_NAMES and _count_setting_folders(f"{folder}/{name}"))
        ):
            yield name


def is_setting(path: str) -> bool:
    """Return whether a path (absolute) is moved aside when a command has made it, whatever it says."""
    row = find_obeyed_row(path)
    return row is not None and row.clean is WriteRule.REFUSED and row.reader != REPOSITORY


def is_obeyed_around(path: str, root: str) -> bool:
    """Return whether a path is a setting by the name of the folder `root` (with a slash at its end) or of one above it:
    who works in the folders around obeys it then. Other settings below `root` are those of who works in there.
    """
    return _count_settings(path) > _count_settings(path.removeprefix(root[:-1]) if path.startswith(root) else "")


def _count_settings(path: str) -> int:
    """Return in how many ways a path is a setting or, were it a link, a folder of them."""
    found = (row for row in _match_rows(path.casefold().split("/")) if row.reader != REPOSITORY)
    return sum(row.clean is WriteRule.REFUSED for row in found) + _count_setting_folders(path)


def _count_setting_folders(path: str) -> int:
    names = path.casefold().split("/")
    return sum(_lies_in(names, len(names), one) for one in SETTING_FOLDERS)


def is_git_shaped(names: Collection[str]) -> bool:
    """Return whether git takes a folder with these entries for a repository, or soon may."""
    return any({*shape}.issubset(names) for shape in (("objects", "refs"), ("HEAD", "commondir"), ("HEAD", "config")))


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


def repository_refusal(path: str, list_names: Callable[[str], Collection[str]]) -> str:
    """Return why `path` (absolute, resolved) may not be written, as a part of a git repository under any name.

    Empty when it is none. `list_names` gives the entries of a folder, none for one that is missing.
    """
    parts = split_git_target(path)
    return OBEYED_REASON if any(completes_repository(part, list_names(folder)) for folder, part in parts) else ""
