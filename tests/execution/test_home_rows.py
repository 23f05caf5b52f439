"""What commands cannot read of homes, by bubblewrap and by Landlock, and the ordinary work that goes on."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.errors import ToolError
from hermes.execution.base import DeniedPath, NetworkMode
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.backend import SandboxBackend
from hermes.execution.sandbox.policy import build_layout, find_own_git_folders, find_tools, make_policy
from hermes.execution.sandbox.probe import SandboxMechanism
from hermes.safety.paths import Places
from tests.execution.test_sandbox import PROBES, WAYS, Case
from tests.requirements import require_sandbox

pytestmark = pytest.mark.slow
MARK = "-".join(("a", "seeded", "word"))
SEEDED = str.split(
    """
    .ssh/id_ed25519 .ssh/work_key .aws/credentials .aws/sso/cache/a.json .azure/msal_token_cache.json .kube/config
    .docker/config.json .netrc .pgpass .my.cnf .git-credentials .config/git/credentials .config/gh/hosts.yml
    .gnupg/private .password-store/mail.gpg .local/share/keyrings/login.keyring .mozilla/firefox/a/logins.json
    .config/chromium/Default/Cookies .config/google-chrome/Default/History .thunderbird/a/Mail/Inbox
    .config/Signal/config.json .config/Slack/Cookies .config/discord/token .local/share/TelegramDesktop/tdata/key
    .bash_history .zsh_history .python_history .psql_history .viminfo .claude/.credentials.json .claude.json
    .codex/auth.json .gemini/oauth.json .config/github-copilot/apps.json .cursor/auth.json .openclaw/openclaw.json
    .config/goose/secrets.yaml .local/share/opencode/auth.json .aider.conf.yml .config/made-up-agent/token
    .made-up-agent/key .made-up-file .cargo/credentials.toml .config/made-up/db.sqlite .local/share/made-up/session
    .local/state/made-up/log .cache/huggingface/token .cache/made-up/mail .m2/settings.xml .gradle/gradle.properties
    .terraformrc .ansible.cfg .vault-token .config/rclone/rclone.conf .config/op/config .npm/made-up
    .config/himalaya/config.toml .muttrc .mbsyncrc .var/app/org.made.Up/config/key snap/made-up/key .hermes/auth.json
    .hermes/hermes.db .hermes/profiles/work/.env other-home/.env other-home/hermes.db Documents/letter.txt
    Downloads/tax.pdf Desktop/note Pictures/a.jpg code/other/.env code/other/src/main.py notes.txt Mail/inbox
    """
)


def seed(home: Path) -> None:
    for name in SEEDED:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{MARK} of {name}\n")


@pytest.fixture(params=WAYS)
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    held = await PROBES[request.param].find_support()
    require_sandbox(request.param, held.is_usable, held.reason)
    made = Case(tmp_path.resolve(), request.param)
    home = made.folder / "home"
    work = home / "code/proj"
    work.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = ann\n\temail = ann@example.org\n")
    made.work = work
    remake(made)
    yield made
    await made.backend.close()


def remake(case: Case, **variables: str) -> None:
    """Make the policy as a session of the owner does, from the folders as they are now."""
    home = str(case.folder / "home")
    others = (str(case.folder / "account"),) if (case.folder / "account").exists() else ()
    places = Places(
        home=home,
        hermes=f"{home}/.hermes",
        workspace=str(case.work),
        other_homes=others,
        hermes_homes=(f"{home}/other-home", str(case.folder / "elsewhere/h2")),
    )
    environ = {**os.environ, "HOME": home, **variables}
    made = replace(make_policy(places, find_tools(places, environ), network=NetworkMode.OFF), private=("/var/tmp",))
    case.policy = made
    case.backend = SandboxBackend(environ, made, probe=case.backend._probe)


async def test_nothing_that_is_seeded_can_be_read(case: Case) -> None:
    for place in ("home", "account"):
        seed(case.folder / place)
    (case.folder / "elsewhere/h2").mkdir(parents=True)
    (case.folder / "elsewhere/h2/.env").write_text(MARK)
    remake(case)
    listed = " ".join(f"{case.folder}/{place}/{name}" for place in ("home", "account") for name in SEEDED)
    await case.run(f"cat {listed} {case.folder}/elsewhere/h2/.env 2>/dev/null; true")
    assert MARK not in case.text
    roots = f"{case.folder}/home {case.folder}/account {case.folder}/elsewhere"
    await case.run(f"grep -rlas {MARK} {roots}; find {roots} /home -name '*made-up*' 2>/dev/null; true")
    assert case.text == ""
    await case.run(f"ls -a {case.folder}/account {case.folder}/home {case.folder}/home/code 2>/dev/null; true")
    assert "proj" in case.text or case.backend._probe is PROBES[SandboxMechanism.LANDLOCK]
    assert not any(name in case.text for name in ("other", "Documents", "made-up", ".aws", "history", ".claude"))


def is_open_to_all(program: str) -> bool:
    """Return whether others than its owner may run it."""
    real = Path(program).resolve()
    return real.is_file() and all(folder.stat().st_mode & 1 for folder in (real, *real.parents))


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser starts programs as somebody else")
@pytest.mark.needs("setpriv")
def test_an_ordinary_user_is_held_the_same() -> None:
    """The tests of this file run once more as an account without rights, which has a copy of them that it may read."""
    program = "test_nothing_that_is_seeded_can_be_read or test_a_folder_that_was_opened"
    python = next(one for one in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}") if is_open_to_all(one))
    arguments = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", program]
    # Beside the test runner's own folders, which each run of it closes to other accounts again.
    with tempfile.TemporaryDirectory(prefix="hermes-", dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        done = subprocess.run(
            ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", *arguments, f"--basetemp={folder}/t"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": folder,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.pathsep.join([os.getcwd(), *(one for one in sys.path if "site-packages" in one)]),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "...." in done.stdout and "skipped" not in done.stdout, done.stdout[-500:]


async def test_a_folder_that_was_opened_is_read_but_for_keys_in_it(case: Case) -> None:
    seed(case.folder / "home")
    home = case.folder / "home"
    remake(case)
    assert (await case.run(f"cat {home}/code/other/src/main.py")).code
    denied = case.backend.find_denied_path("cat", str(case.work), case.text)
    assert denied == DeniedPath(str(home / "code/other/src"), is_write=False)
    case.backend.grant_read(str(home / "code/other"))
    assert (await case.run(f"cat {home}/code/other/src/main.py")).code == 0
    assert (await case.run(f"cat {home}/code/other/.env")).code and MARK not in case.text
    assert (await case.run(f"echo x > {home}/code/other/new")).code and not (home / "code/other/new").exists()
    assert case.backend.current_layout().access_of(f"{home}/code/other/.env") is PathAccess.HIDDEN
    (home / "code/other/server.pem").write_text(MARK)
    await case.run(f"cat {home}/code/other/server.pem")
    assert MARK not in case.text
    for name in ("", "..", ".ssh", ".hermes", ".aws/credentials", "other-home", "code/other/.env", ".codex"):
        with pytest.raises(ToolError):
            case.backend.grant_read(os.path.normpath(home / name))


SETTINGS = {
    ".gitconfig": (
        '[user]\n\tname = "Ann B"\n\temail = ann@example.org\n[credential]\n\thelper = store\n'
        "[commit]\n\tgpgsign = true\n"
        '[url "https://x:{mark}@h.example/"]\n\tinsteadOf = gh:\n[alias]\n\tst = status\n\tbad = !echo {mark}\n'
        '[http "https://h.example"]\n\textraHeader = Authorization: {mark}\n[include]\n\tpath = ~/.gitsecret\n'
        "[core]\n\thooksPath = ~/hooks\n\tautocrlf = input # why\n"
    ),
    ".config/git/config": "[init]\n\tdefaultBranch = trunk\n[sendemail]\n\tsmtppass = {mark}\n",
    ".npmrc": "registry=https://u:{mark}@npm.example/\n//npm.example/:_authToken={mark}\nsave-exact=true\n",
    ".config/pip/pip.conf": (
        "[global]\nindex-url = https://u:{mark}@pip.example/simple\nextra-index-url =\n    https://{mark}@two.example/s\n"
        "timeout = 7\npassword = {mark}\n"
    ),
    ".cargo/config.toml": (
        '[registries.own]\nindex = "sparse+https://c.example/"\ntoken = "{mark}"\n[build]\njobs = 1\n'
        '[env]\nKEY = "{mark}"\n[http]\nproxy = "u:{mark}@p"\n'
    ),
    ".ssh/config": (
        "Host a\n  HostName a.example\n  IdentityFile ~/.ssh/{mark}\n  ProxyCommand {mark}\n"
        "Match exec {mark}\n  User {mark}\n"
        "Include {mark}\nHost b\n  Port 22\n"
    ),
}


async def test_settings_are_cleaned_copies(case: Case) -> None:
    home = case.folder / "home"
    for name, text in SETTINGS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text.replace("{mark}", MARK))
    remake(case)
    shown = (
        'cat "${GIT_CONFIG_GLOBAL:-$HOME/.gitconfig}" "${NPM_CONFIG_USERCONFIG:-$HOME/.npmrc}" ~/.config/git/config '
        '"${PIP_CONFIG_FILE:-$HOME/.config/pip/pip.conf}" "${CARGO_HOME:-$HOME/.cargo}/config.toml" ~/.ssh/config; true'
    )
    await case.run(shown)
    said = case.text
    assert MARK not in said
    for kept in ("Ann B", "https://h.example/", "st = ", "https://npm.example/", "save-exact=true", "timeout = 7"):
        assert kept in said, kept
    for kept in ("https://pip.example/simple", "https://two.example/s", "sparse+https://c.example/", "autocrlf"):
        assert kept in said, kept
    assert case.work.is_dir() and "hooksPath" not in said and "helper" not in said
    if case.backend._probe is PROBES[SandboxMechanism.BUBBLEWRAP]:
        assert "Port 22" in said and "trunk" in said and "HostName a.example" in said
    await case.run(f"cat {home}/.gitconfig {home}/.npmrc {home}/.cargo/config.toml; grep -rs {MARK} ~; true")
    assert MARK not in case.text


@pytest.mark.needs("git")
async def test_git_works_and_signs_nothing(case: Case) -> None:
    (case.folder / "home/.gitconfig").write_text(
        "[user]\n\tname = ann\n\temail = ann@example.org\n[commit]\n\tgpgsign = true\n[init]\n\tdefaultBranch = trunk\n"
    )
    remake(case)
    made = "git init -q . && echo a > a && git add a && git commit -qm one && git checkout -qb b && echo b > a"
    assert (await case.run(f"{made} && git commit -qam two && git rebase -q trunk && git log --format=%an%s")).code == 0
    assert case.text.startswith("anntwo\nannone\n") and "git signs nothing" in case.text
    await case.run("git log --oneline")
    assert "git signs nothing" not in case.text
    assert (await case.run("git commit -q --allow-empty -m three && git status --short")).code == 0


def git(folder: Path, *arguments: str) -> None:
    variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=folder, env=variables, check=True, capture_output=True)


@pytest.fixture
def repository(case: Case) -> Iterator[Path]:
    main = case.folder / "home/code/main"
    main.mkdir(parents=True)
    git(main, "init", "-q", "-b", "trunk")
    (main / "a").write_text("a\n")
    git(main, "add", "a")
    git(main, "commit", "-qm", "one")
    yield main


@pytest.mark.needs("git")
async def test_a_worktrees_own_git_folder_is_used_and_its_hooks_are_fixed(case: Case, repository: Path) -> None:
    git(repository, "worktree", "add", "-q", str(case.folder / "home/code/tree"))
    case.work = case.folder / "home/code/tree"
    remake(case)
    assert case.policy.git_folders == (f"{repository}/.git",)
    assert (await case.run("echo b > a && git commit -qam two && git log --format=%s")).code == 0
    assert case.text == "two\none\n"
    await case.run(f"echo bad > {repository}/.git/hooks/pre-commit; cat {repository}/a; true")
    assert not (repository / ".git/hooks/pre-commit").exists() and "a\n" not in case.text.splitlines()


@pytest.mark.needs("git")
async def test_a_submodules_own_git_folder_is_used(case: Case, repository: Path) -> None:
    above = case.folder / "home/code/above"
    above.mkdir()
    git(above, "init", "-q")
    git(above, "submodule", "add", "-q", str(repository), "sub")
    case.work = above / "sub"
    remake(case)
    assert case.policy.git_folders == (f"{above}/.git/modules/sub",)
    assert (await case.run("echo b > a && git commit -qam two && git log --format=%s")).code == 0


@pytest.mark.needs("git")
def test_a_folder_that_does_not_name_the_workspace_is_not_its_own(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    (home / "private/.git/objects").mkdir(parents=True)
    (home / "private/.git/refs").mkdir()
    (home / "private/.git/HEAD").write_text("ref: refs/heads/trunk\n")
    work = home / "work"
    work.mkdir()
    places = Places(home=str(home), hermes=f"{home}/.hermes", workspace=str(work))
    for named in (home / "private/.git", home / ".ssh", home):
        (work / ".git").write_text(f"gitdir: {named}\n")
        assert find_own_git_folders(places) == ()


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


async def test_programs_of_path_run_wherever_their_links_lead(case: Case) -> None:
    """A tool of pipx in a folder of one's own, one of uv, a shim of pyenv, a link to a version, a script alone."""
    home = case.folder / "home"
    version = home / ".pyenv/versions/3.99"
    program(version / "bin/python3", '#!/bin/sh\n. "$1"\n')
    environment = home / "apps/pipx/venvs/tool"
    (environment / "bin").mkdir(parents=True)
    (environment / "lib").mkdir()
    (environment / "pyvenv.cfg").write_text(f"home = {version}/bin\n")
    (environment / "lib/words").write_text("from pipx\n")
    (environment / "bin/python").symlink_to(version / "bin/python3")
    program(environment / "bin/tool", f"#!{environment}/bin/python\ncat {environment}/lib/words\n")
    program(home / ".local/share/uv/tools/t/bin/uvtool", "#!/bin/sh\necho from uv\n")
    program(home / ".pyenv/shims/shim", "#!/bin/sh\necho from pyenv\n")
    program(home / "opt/jdk-21/bin/java", "#!/bin/sh\ncat $(dirname $(readlink -f $0))/../lib/words\n")
    (home / "opt/jdk-21/lib").mkdir()
    (home / "opt/jdk-21/lib/words").write_text("from java\n")
    (home / "opt/jdk").symlink_to("jdk-21")
    program(home / "code/scripts/mine.sh", "#!/bin/sh\necho mine\n")
    (home / "code/scripts/secret").write_text(MARK)
    (home / ".pyenv/shims/.env").write_text(MARK)
    program(home / ".aws/bin/leak", f"#!/bin/sh\necho {MARK}\n")
    folder = home / ".local/bin"
    folder.mkdir(parents=True)
    for name, target in {
        "tool": environment / "bin/tool",
        "uvtool": home / ".local/share/uv/tools/t/bin/uvtool",
        "java": home / "opt/jdk/bin/java",
        "mine": home / "code/scripts/mine.sh",
        "leak": home / ".aws/bin/leak",
    }.items():
        (folder / name).symlink_to(target)
    path = os.pathsep.join((str(folder), str(home / ".pyenv/shims"), os.environ["PATH"]))
    remake(case, PATH=path)
    ended = await case.run("tool && uvtool && shim && java && mine")
    assert (ended.code, case.text) == (0, "from pipx\nfrom uv\nfrom pyenv\nfrom java\nmine\n")
    assert (
        await case.run(f"leak; cat {home}/code/scripts/secret {home}/.pyenv/shims/.env; cat {home}/.aws/bin/leak")
    ).code
    assert MARK not in case.text


async def test_dotfiles_by_links_are_found(case: Case) -> None:
    home = case.folder / "home"
    (home / "dotfiles").mkdir()
    (home / "dotfiles/gitconfig").write_text("[user]\n\tname = linked\n")
    (home / "dotfiles/private").write_text(MARK)
    (home / ".gitconfig").unlink()
    (home / ".gitconfig").symlink_to("dotfiles/gitconfig")
    (home / "store/rustup/bin").mkdir(parents=True)
    program(home / "store/rustup/bin/rustc", "#!/bin/sh\necho rust\n")
    (home / ".rustup").symlink_to(home / "store/rustup")
    remake(case)
    assert (await case.run("~/.rustup/bin/rustc && ! cat ~/dotfiles/private")).code == 0 and "rust\n" in case.text
    if shutil.which("git"):
        assert (await case.run("git config user.name")).code == 0 and case.text == "linked\n"


async def test_pip_installs_from_a_folder_of_packages(case: Case) -> None:
    """The interpreter lies in a home here or elsewhere; packages are built without any network."""
    source = case.work / "pkg"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n'
        '[project]\nname = "p"\nversion = "1"\n'
    )
    (source / "b.py").write_text(
        "import zipfile\n"
        "def build_wheel(folder, settings=None, metadata=None):\n"
        "    with zipfile.ZipFile(folder + '/p-1-py3-none-any.whl', 'w') as z:\n"
        "        z.writestr('p.py', 'print(\"installed\")')\n"
        "        z.writestr('p-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: p\\nVersion: 1\\n')\n"
        "        z.writestr('p-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: b\\nRoot-Is-Purelib: true\\n"
        "Tag: py3-none-any\\n')\n"
        "        z.writestr('p-1.dist-info/RECORD', '')\n"
        "    return 'p-1-py3-none-any.whl'\n"
    )
    install = f"{sys.executable} -m venv v && v/bin/pip install -q --no-index --no-build-isolation ./pkg"
    assert (await case.run(f"{install} && v/bin/python -m p")).code == 0, case.text
    assert case.text.endswith("installed\n")


def test_a_layout_is_kept_until_something_changes(tmp_path: Path) -> None:
    case = Case(tmp_path.resolve(), SandboxMechanism.BUBBLEWRAP)
    remake(case)
    first = case.backend.current_layout()
    (case.work / "new").write_text("x")
    assert case.backend.current_layout() is first
    (case.folder / "home/.nvm").mkdir()
    second = case.backend.current_layout()
    assert second is not first and second.access_of(f"{case.folder}/home/.nvm/x") is PathAccess.READ
    (case.folder / "home/Documents").mkdir()
    case.backend.grant_read(str(case.folder / "home/Documents"))
    assert case.backend.current_layout().access_of(f"{case.folder}/home/Documents") is PathAccess.READ
    assert build_layout(case.policy).access_of("/media") in (PathAccess.HIDDEN, PathAccess.READ)
