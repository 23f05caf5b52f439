"""The one door for a path: every name that a protected file has, links and devices as the disk has them."""

import os
import socket
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.safety.path_policy import judge_path
from hermes.safety.paths import Places
from hermes.safety.shell.findings import Verdict
from hermes.tools.files import open_regular, save_file
from hermes.tools.session import ToolContext
from tests.case_tables import each_case
from tests.tools.tool_session import make_context


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path.resolve()
    for name in (".ssh", ".hermes/skills", ".config/autostart", "sub", "proj/src", "proj/.git/hooks"):
        (root / "ann" / name).mkdir(parents=True)
    for name in (".ssh/id_rsa", ".ssh/authorized_keys", ".bashrc", ".hermes/config.yaml", "proj/src/a.py"):
        (root / "ann" / name).write_text("x")
    return Places(home=f"{root}/ann", hermes=f"{root}/ann/.hermes", workspace=f"{root}/ann/proj")


def verdict(path: str, op: str, places: Places) -> Verdict:
    assert op in ("read", "write")
    return judge_path(path, "write" if op == "write" else "read", places.workspace, places).verdict


@each_case(
    ("op", "path"),
    [
        ("read", "~/.ssh/id_rsa"),
        ("read", "../.ssh/id_rsa"),
        ("read", "~/proj/../.ssh//id_rsa"),
        ("read", "$HOME/.ssh/id_rsa"),
        ("read", "${HOME}/.ssh/id_rsa"),
        ("read", "file://HOME/.ssh/id_rsa"),
        ("read", "file:HOME/.ssh/id_rsa"),
        ("read", "/proc/self/root/HOME/.ssh/id_rsa"),
        ("read", "/proc/1/root/etc/shadow"),
        ("read", "~/.ssh/id_rsa\0.txt"),
        ("read", "%7e/../ann/.ssh/id_rsa"),
        ("read", "~/.ssh/id_rsa "),
        ("read", "~root/.ssh/id_rsa"),
        ("read", "/etc/shadow"),
        ("read", "~/.hermes/config.yaml"),
        ("read", "$HERMES_HOME/config.yaml"),
        ("read", "~/.bash_history"),
        ("read", "/dev/urandom"),
        ("read", "/dev/tty"),
        ("read", "/proc/self/environ"),
        ("read", "/proc/kmsg"),
        ("read", ""),
        ("read", "~/.kube/config"),
        ("read", "~/.docker/config.json"),
        ("read", "~/.password-store/a.gpg"),
        ("read", "~/.config/google-chrome/Default/Login Data"),
        ("read", "~/.netrc"),
        ("read", "~/.terraform.d/credentials.tfrc.json"),
        ("write", "~/.bashrc"),
        ("write", "~/.ssh/authorized_keys"),
        ("write", ".git/config"),
        ("write", ".git/hooks/pre-commit"),
        ("write", "~/.env"),
        ("write", "../other/.env"),
        ("write", "id_ed25519"),
        ("write", "/proc/self/cwd/../.bashrc"),
        ("write", "/etc//passwd"),
        ("write", "/dev/sda"),
        ("write", "~/.hermes/skills/x/SKILL.md"),
        ("write", "~/.config/systemd/user/x.service"),
        ("write", "/root/.profile"),
        ("write", "~/.local/lib/python3.11/site-packages/usercustomize.py"),
        ("write", "/home/else/.bashrc"),
        ("write", "..\\..\\ann\\.bashrc"),
        ("write", "/run/systemd/system/x.service"),
        ("write", "~/.zshrc."),
    ],
)
def test_refused(op: str, path: str, places: Places) -> None:
    assert (
        verdict(
            path.replace("HOME/", f"{places.home}/", 1) if path.startswith(("file", "/proc/self/root")) else path,
            op,
            places,
        )
        is Verdict.DENY
    )


@pytest.mark.parametrize("path", [".env", ".env.production", "server.pem", "terraform.tfstate"])
def test_a_projects_keys_are_written_after_a_question(path: str, places: Places) -> None:
    assert verdict(path, "write", places) is Verdict.ASK


@pytest.mark.parametrize(
    ("op", "path"),
    [
        ("read", "src/a.py"),
        ("read", ".env"),
        ("read", ".env.example"),
        ("read", "/etc/nginx/nginx.conf"),
        ("read", ".git/config"),
        ("read", "~/.ssh/known_hosts"),
        ("read", "~/.bashrc"),
        ("read", "/usr/include/stdio.h"),
        ("read", "a%20b.txt"),
        ("read", "/dev/null"),
        ("write", "src/a.py"),
        ("write", "./docs/x.md"),
        ("write", ".env.sample"),
        ("write", ".env.local.example"),
        ("write", "a b.txt"),
        ("write", "etc/passwd.txt"),
        ("write", "/tmp/hermes-scratch.txt"),
        ("write", ".gitignore"),
        ("write", "~/notes/a.md"),
        ("write", "keys.py"),
        ("write", "monkey.pem.md"),
        ("write", "100%.txt"),
        ("write", "$HOME.txt"),
        ("write", "~draft.txt"),
    ],
)
def test_open(op: str, path: str, places: Places) -> None:
    assert verdict(path, op, places) is Verdict.ALLOW


def test_links_lead_where_they_lead(places: Places) -> None:
    proj = Path(places.workspace)
    (proj / "k").symlink_to(f"{places.home}/.ssh/id_rsa")
    (proj / "new").symlink_to(f"{places.home}/.config/autostart/x.desktop")
    (proj / "s").symlink_to(f"{places.home}/sub")
    os.link(f"{places.home}/.ssh/authorized_keys", proj / "hard")
    os.link(f"{places.home}/.hermes/config.yaml", proj / "harmless.yaml")
    os.link(proj / "src/a.py", proj / "twin.py")
    assert verdict("k", "read", places) is Verdict.DENY
    assert verdict("new", "write", places) is Verdict.DENY
    assert verdict("s/../.ssh/authorized_keys", "write", places) is Verdict.DENY
    assert verdict("hard", "write", places) is Verdict.DENY
    assert verdict("harmless.yaml", "read", places) is Verdict.DENY
    assert verdict("twin.py", "write", places) is Verdict.ALLOW
    assert judge_path("s/a", "read", places.workspace, places).real == f"{places.home}/sub/a"


def test_what_is_no_file_is_not_opened(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    proj = Path(places.workspace)
    os.mkfifo(proj / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(proj)  # the name of a socket may not be long
    try:
        listening.bind("socket")
        for name in ("pipe", "socket"):
            assert verdict(name, "read", places) is Verdict.DENY
            assert verdict(name, "write", places) is Verdict.DENY
        with pytest.raises(ToolError, match="named pipe"):
            open_regular(f"{proj}/pipe", "pipe", context(places))
    finally:
        listening.close()


def context(places: Places) -> ToolContext:
    return make_context(Path(places.workspace), places=places)


def test_a_link_swapped_after_the_gate_leads_nowhere(places: Places) -> None:
    """The gate saw `data/a.txt` in the workspace; then `data` became a link to `.ssh`."""
    proj = Path(places.workspace)
    (proj / "data").symlink_to(f"{places.home}/.ssh")
    with pytest.raises(ToolError, match="not open to tools"):
        open_regular(f"{proj}/data/id_rsa", "data/id_rsa", context(places))
    with pytest.raises(ToolError, match="not open to tools"):
        save_file(f"{proj}/data/authorized_keys", "data/authorized_keys", b"evil", context(places))
    assert Path(places.home, ".ssh/authorized_keys").read_text() == "x"
    os.link(f"{places.home}/.ssh/id_rsa", proj / "hard")
    with pytest.raises(ToolError, match="another name"):
        open_regular(f"{proj}/hard", "hard", context(places))
    save_file(f"{proj}/fine/b.txt", "fine/b.txt", b"good", context(places))
    assert (proj / "fine/b.txt").read_bytes() == b"good"
