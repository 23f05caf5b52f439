"""Paths that tools may not touch, and variables that commands do not get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.safety.autorun_files import repository_refusal
from hermes.safety.environment import is_secret_variable, remove_secret_variables
from hermes.safety.paths import Places, is_root_like, read_refusal, write_refusal
from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.words import word_set
from tests.case_tables import each_case

PLACES = Places(
    home="/home/ann", hermes="/home/ann/.hermes", workspace="/home/ann/proj", own=("/home/ann/.hermes/spill",)
)


@each_case(
    "path",
    sorted(
        word_set(
            """
        /home/ann/.ssh/authorized_keys /home/ann/.ssh /home/ann/.zshrc /home/ann/.config/autostart/x.desktop
        /home/ann/.hermes/config.yaml /home/ann/.hermes /home/ann/.hermes/skills/x/SKILL.md /etc/hosts /etc /usr/bin/git
        /boot/x /lib/x /dev/sda /home/ann/proj/.git/hooks/post-commit /home/ann/proj/.git/config /proc/1/mem /sys/x
        /home/ann/proj/.vscode/tasks.json /home/ann/proj/id_ed25519
        /home/ann/proj/.env /home/ann/.local/bin/ls /var/spool/cron/ann
        /home/ann/proj/.claude/settings.json /home/ann/proj/sub/.claude/settings.local.json /home/ann/proj/.mcp.json
        /home/ann/proj/sub/.mcp.json /home/ann/proj/.cursor/mcp.json /home/ann/proj/.zed/tasks.json
        /home/ann/proj/.codex/config.toml /home/ann/proj/.gemini/settings.json /home/ann/proj/opencode.json
        /home/ann/proj/.opencode/plugin/x.js /home/ann/proj/.helix/languages.toml /home/ann/proj/.nvim.lua
        /home/ann/proj/.irbrc /home/ann/proj/.pdbrc /home/ann/proj/x.code-workspace /home/ann/proj/.vscode/mcp.json
        /home/ann/proj/.roo/mcp.json /home/ann/proj/.idea/workspace.xml /home/ann/proj/.idea/runConfigurations/x.xml
        /home/ann/proj/.githooks/pre-commit /home/ann/proj/.mise.toml
        /home/ann/proj/sub/.vscode/tasks.json /home/ann/proj/sub/.envrc /home/ann/proj/sub/.git
        """
        )
    ),
)
def test_not_written(path: str) -> None:
    assert write_refusal(path, PLACES)


@pytest.mark.parametrize(
    "path",
    sorted(
        word_set(
            """
        /home/ann/proj/a.py /home/ann/proj/.env.example /home/ann/proj/etc/passwd /tmp/x /home/ann/notes.txt /dev/null
        /home/ann/.hermes/spill/c1.txt /home/ann/proj/.github/workflows/ci.yml /home/ann/.sshx /etcetera/x
        /home/ann/proj/.gitignore /home/ann/proj/.bashrc /srv/www/index.html
        /home/ann/proj/.claude/skills/x/SKILL.md /home/ann/proj/.claude/CLAUDE.md /home/ann/proj/.vscode/extensions.json
        /home/ann/proj/settings.json /home/ann/proj/config.toml /home/ann/proj/src/mcp.json /home/ann/proj/refs/x
        """
        )
    ),
)
def test_written(path: str) -> None:
    assert write_refusal(path, PLACES) == ""


@each_case(
    "path",
    sorted(
        word_set(
            """
        /home/ann/.ssh/id_rsa /home/ann/.ssh/custom /home/ann/.aws/credentials /home/ann/.hermes/.env /etc/shadow
        /home/ann/.hermes/config.yaml /home/ann/.hermes/hermes.db-wal /home/ann/.hermes/logs/agent.log
        /home/ann/.hermes/cache/models.json /home/ann/.hermes/trajectories/x.json /proc/self/task/1/environ
        /home/ann/.hermes/auth.json /dev/zero /dev/input/event0 /proc/1/environ /proc/self/mem /proc/kmsg
        /srv/keys/id_ed25519 /home/ann/.netrc /home/ann/.mozilla/firefox/p/logins.json
        /home/ann/.claude/.credentials.json /home/ann/.claude.json /home/ann/.codex/auth.json
        /home/ann/.gemini/oauth_creds.json /home/ann/.config/github-copilot/apps.json
        /home/ann/.openclaw/openclaw.json /home/ann/.config/goose/secrets.yaml
        /home/ann/.local/share/opencode/auth.json /home/ann/.config/io.datasette.llm/keys.json
        /home/ann/.var/app/org.mozilla.firefox/.mozilla/x /home/ann/.config/Code/x /home/ann/.config/Slack/x
        /home/ann/.config/discord/x /home/ann/.config/Signal/x /home/ann/.local/share/TelegramDesktop/x
        /home/ann/.local/share/atuin/history.db /home/ann/.local/share/code-server/x
        /home/ann/.local/share/jupyter/runtime/x /home/ann/.config/hcloud/cli.toml /home/ann/.config/scw/config.yaml
        /home/ann/.supabase/access-token /home/ann/.railway/config.json /home/ann/.config/configstore/firebase.json
        /home/ann/.config/himalaya/config.toml /home/ann/.aider.conf.yml /home/ann/.sentryclirc /home/ann/.weechat/x
        /home/ann/.mutt/x /home/ann/.muttrc /home/ann/.offlineimaprc /home/ann/.terraformrc /home/ann/.ansible.cfg
        /home/ann/.vault_pass /home/ann/.local/share/uv/credentials/credentials.toml
        """
        )
    ),
)
def test_not_read(path: str) -> None:
    assert read_refusal(path, PLACES)


@pytest.mark.parametrize(
    "path",
    sorted(
        word_set(
            """
        /home/ann/proj/a.py /etc/hosts /home/ann/.bashrc /home/ann/.ssh/id_rsa.pub /home/ann/.ssh/known_hosts
        /proc/cpuinfo /home/ann/.hermes/skills/x/SKILL.md
        /home/ann/.hermes/SOUL.md /home/ann/.hermes/spill/x.txt /home/ann/proj/.env
        /dev/null /home/ann/.hermes
        """
        )
    ),
)
def test_read(path: str) -> None:
    assert read_refusal(path, PLACES) == ""


def test_what_holds_everything() -> None:
    for path in ("/", "/*", "/home", "/home/ann", "/home/ann/", "/home/ann/*", "/usr", "/etc/"):
        assert is_root_like(path, PLACES), path
    for path in ("/home/ann/proj", "/tmp/x", "/home/bob/x", "/usr/share/doc/x"):
        assert not is_root_like(path, PLACES), path


def test_keys_are_told_by_name() -> None:
    secret = [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "MY_SECRET",
        "aws_access_key_id",
    ]
    plain = ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "KEYBOARD", "TOKENIZERS_PARALLELISM", "MONKEY", "COMPASS"]
    assert [name for name in [*secret, *plain] if is_secret_variable(name)] == secret
    assert remove_secret_variables({"A_TOKEN": "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@given(st.text(alphabet="ab $`'\"\\(){}[]<>|&;#\n=*~!-", max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert all(isinstance(one.subject, str) for one in analyze_command(text, "/home/ann/proj", PLACES).findings)


@pytest.mark.parametrize("name", ["skills/x/SKILL.md", "settings.json", "agents/a.md"])
def test_what_a_project_keeps_for_agents_is_read(name: str) -> None:
    assert read_refusal(f"/home/ann/proj/.claude/{name}", PLACES) == ""


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("config", "HEAD objects refs"),
        ("config", "HEAD"),
        ("config", "objects refs"),
        ("config.worktree", "HEAD objects refs"),
        ("commondir", "HEAD"),
        ("hooks/post-checkout", "HEAD objects refs"),
        ("info/attributes", "HEAD objects refs"),
        ("HEAD", "objects refs"),
        ("HEAD", "config"),
        ("objects/ab/k", "HEAD refs"),
        ("refs/heads/main", "HEAD objects"),
    ],
)
def test_a_repository_is_known_by_its_shape(name: str, there: str) -> None:
    names = {"/p/docs": there.split()}
    assert repository_refusal(f"/p/docs/{name}", lambda folder: names.get(folder, []))


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("config", "src refs"),
        ("config", "objects"),
        ("refs/notes.md", "src config"),
        ("refs/notes.md", "objects config"),
        ("objects/cube.py", "refs config"),
        ("hooks/use_state.ts", "config objects"),
        ("hooks/use_state.ts", ""),
        ("HEAD", ""),
        ("README", "HEAD objects refs"),
        ("info/attributes", "config"),
    ],
)
def test_ordinary_folders_are_no_repository(name: str, there: str) -> None:
    names = {"/p/docs": there.split()}
    assert repository_refusal(f"/p/docs/{name}", lambda folder: names.get(folder, [])) == ""
