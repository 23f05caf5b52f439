"""Files that other programs run, or take for instructions, without being asked to: what is put there acts later."""

import os.path
import re

_NAMES = frozenset(
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
_ENDS = (".sh", ".bash", ".zsh", ".pth", ".service", ".timer", ".desktop", ".plist", ".cron", ".mk", ".bat", ".ps1")
_FOLDERS = re.compile(
    r"/(\.github/workflows|\.github/actions|\.circleci|\.husky|\.githooks|\.git|\.vscode|\.idea|\.devcontainer|\.claude|"
    r"\.cursor|\.cargo|cron\.[a-z]+|\.config/(systemd|autostart)|skills|hooks)(/|$)",
    re.IGNORECASE,
)


def runs_later(path: str) -> bool:
    """Whether something else will run, or obey, what is written to this path."""
    name = os.path.basename(path).lower()
    return name in _NAMES or name.endswith(_ENDS) or _FOLDERS.search(path) is not None
