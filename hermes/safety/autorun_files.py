"""Files that other programs run, or read as instructions, by themselves."""

import os.path
import re

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
