"""Update this installation, and roll back when the new version does not work."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import hermes
from hermes.admin.backup import create_automatic_backup
from hermes.config.home import locate_home
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.execution.git import Git
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.sessions.open_sessions import require_no_open_session
from hermes.util.text import to_one_line

DISTRIBUTION = "hermes-anew"
CLONE, PIP, UV, UV_TOOL, PIPX, UNKNOWN = "clone", "pip", "uv", "uv tool", "pipx", "unknown"
_COMMAND_SECONDS = 600.0
_LOCK_FILE = "requirements/run.txt"


class Installation(Struct, frozen=True, kw_only=True):
    """How Hermes is installed: `root` is the clone's folder or the package's; `python` runs it."""

    kind: str
    root: str
    python: str
    version: str


class UpdateCommandResult(Struct, frozen=True):
    """The exit code of a command, and its output."""

    code: int
    out: str
    wrong: str


class UpdateCommandRunner:
    """Runs the commands of an update, with the environment that it was created with."""

    def __init__(self, environ: Mapping[str, str], *, seconds: float = _COMMAND_SECONDS) -> None:
        self.environ = dict(environ)
        self._seconds = seconds

    def run_command(self, command: Sequence[str], folder: str) -> UpdateCommandResult:
        """Run a command to its end. One that cannot be started or takes too long is a failure like any other."""
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._seconds,
                check=False,
            )
        except OSError as error:
            return UpdateCommandResult(127, "", f"{command[0]}: {error.strerror}")
        except subprocess.TimeoutExpired:
            return UpdateCommandResult(
                124, "", tr("{program} did not end within {n} s", program=command[0], n=f"{self._seconds:g}")
            )
        return UpdateCommandResult(done.returncode, done.stdout, done.stderr)


def detect_installation() -> Installation:
    """Describe the installation that runs now."""
    package = Path(hermes.__file__).resolve().parent
    return Installation(
        kind=_detect_kind(package, Path(sys.prefix)),
        root=str(package.parent),
        python=sys.executable,
        version=hermes.__version__,
    )


def _detect_kind(package: Path, prefix: Path) -> str:
    if (package.parent / ".git").exists() and (package.parent / "pyproject.toml").exists():
        return CLONE
    if (prefix / "uv-receipt.toml").exists():
        return UV_TOOL
    if (prefix / "pipx_metadata.json").exists():
        return PIPX
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec

    try:
        installer = (distribution(DISTRIBUTION).read_text("INSTALLER") or "").strip()
    except PackageNotFoundError:
        return UNKNOWN
    if installer == "uv":
        return UV
    return PIP if find_spec("pip") is not None else UNKNOWN  # an image, whose pip is gone: a new one is built


def describe_extra_command(extra: str) -> str:
    """Return the command that adds an extra to the installation that runs now, as a person types it."""
    installed, wanted = detect_installation(), shlex.quote(f"{DISTRIBUTION}[{extra}]")
    python = shlex.quote(installed.python)
    return {
        CLONE: f"{python} -m pip install --editable {shlex.quote(f'{installed.root}[{extra}]')}",
        PIP: f"{python} -m pip install {wanted}",
        UV: f"uv pip install --python {python} {wanted}",
        UV_TOOL: f"uv tool install --force {wanted}",
        PIPX: f"pipx install --force {wanted}",
    }.get(installed.kind, f"pip install {wanted}")


class Updater:
    """Updates an installation. Nothing happens automatically."""

    def __init__(
        self, installed: Installation, environ: Mapping[str, str], runner: UpdateCommandRunner | None = None
    ) -> None:
        self.installed = installed
        self._environ = environ
        self._runner = runner or UpdateCommandRunner(environ)

    def update_command(self) -> list[str]:
        """Return the command that updates; empty where none is known."""
        python = self.installed.python
        return {
            CLONE: ["git", "merge", "--ff-only", "@{upstream}"],
            PIP: [python, "-m", "pip", "install", "--upgrade", DISTRIBUTION],
            UV: ["uv", "pip", "install", "--python", python, "--upgrade", DISTRIBUTION],
            UV_TOOL: ["uv", "tool", "upgrade", DISTRIBUTION],
            PIPX: ["pipx", "upgrade", DISTRIBUTION],
        }.get(self.installed.kind, [])

    def removal_command(self) -> list[str]:
        """Return the command that removes this installation; empty for a clone, and where none is known."""
        return {
            PIP: [self.installed.python, "-m", "pip", "uninstall", DISTRIBUTION],
            UV: ["uv", "pip", "uninstall", "--python", self.installed.python, DISTRIBUTION],
            UV_TOOL: ["uv", "tool", "uninstall", DISTRIBUTION],
            PIPX: ["pipx", "uninstall", DISTRIBUTION],
        }.get(self.installed.kind, [])

    def describe_installation(self) -> Plain:
        """Describe this installation and what would be run, without using the network."""
        return {
            "version": self.installed.version,
            "kind": self.installed.kind,
            "root": self.installed.root,
            "python": self.installed.python,
            "command": self.update_command(),
            "changed_files": self._changed_files(),
        }

    def require_known_way(self) -> None:
        """Raise UsageError where it is not known what would update this installation."""
        if not self.update_command():
            raise UsageError(
                N_("It is unknown how this Hermes in {folder} was installed.", folder=self.installed.root),
                N_("Update it the way it was installed."),
            )

    def check_for_update(self) -> Plain:
        """Look for a newer version in the index, or in the repository that the clone came from.

        `newer` is the newer version, or for a clone how many commits are new; empty when there is nothing new.
        """
        row = self.describe_installation()
        if self.installed.kind == CLONE:
            git = self._open_git()
            git.run_git("fetch", "--quiet")
            count = git.run_git("rev-list", "--count", "HEAD..@{upstream}")
            return row | {"newer": "" if count == "0" else tr_plural("{n} new commit", "{n} new commits", int(count))}
        self.require_known_way()
        return row | {"newer": self._newer_version()}

    def update_installation(self) -> Plain:
        """Back up, update, test the new version, and roll back to the old one when that fails.

        Raises UsageError for a clone with changes, BusyError while a session is open, StoreError when it
        failed: then the old version is restored.
        """
        row = self.check_for_update()
        if changed := row["changed_files"]:
            assert isinstance(changed, list)
            raise UsageError(
                N_(
                    "The clone in {folder} has changes: {files}.",
                    folder=self.installed.root,
                    files=", ".join(changed[:5]),
                ),
                N_("Commit or stash them first."),
            )
        if not row["newer"]:
            return row | {"updated": False}
        home = locate_home(self._environ)
        require_no_open_session(home, tr("Hermes cannot be updated"))
        before = create_automatic_backup(home)
        row["backup"] = before["file"] if before is not None else None
        old = self._open_git().run_git("rev-parse", "HEAD") if self.installed.kind == CLONE else self.installed.version
        why = self._install_new(old) or self._verify_version()
        if why:
            back = self._roll_back(old)
            if back:
                raise StoreError(
                    N_("The update failed ({why}), and going back failed, too: {what}.", why=why, what=back),
                    N_("To go back by hand: {command}", command=" ".join(self._rollback_command(old))),
                )
            raise StoreError(
                N_("The update failed: {why}.", why=why),
                N_("Version {old} is there again.", old=self.installed.version),
            )
        return row | {"updated": True, "now": self._installed_version()}

    def _install_new(self, old: str) -> str:
        """Install the new version; return what went wrong, in words."""
        if self.installed.kind != CLONE:
            return self._run_step(self.update_command())
        try:
            self._open_git().run_git(*self.update_command()[1:])
        except HermesError as error:
            return str(error)
        return self._install_requirements(old, "HEAD")

    def _roll_back(self, old: str) -> str:
        if self.installed.kind != CLONE:
            return self._run_step(self._rollback_command(old))
        try:
            git = self._open_git()
            new = git.run_git("rev-parse", "HEAD")
            git.run_git(*self._rollback_command(old)[1:])
        except HermesError as error:
            return str(error)
        return self._install_requirements(new, "HEAD")

    def _rollback_command(self, old: str) -> list[str]:
        python, pinned = self.installed.python, f"{DISTRIBUTION}=={old}"
        return {
            CLONE: ["git", "reset", "--quiet", "--keep", old],
            PIP: [python, "-m", "pip", "install", pinned],
            UV: ["uv", "pip", "install", "--python", python, pinned],
            UV_TOOL: ["uv", "tool", "install", "--force", pinned],
            PIPX: ["pipx", "install", "--force", pinned],
        }[self.installed.kind]

    def _install_requirements(self, before: str, after: str) -> str:
        """Install the requirements of a clone's lock file when it has changed; return what went wrong."""
        if not self._open_git().run_git(
            "diff", "--no-ext-diff", "--no-textconv", "--name-only", before, after, "--", _LOCK_FILE
        ):
            return ""
        options = ["--quiet", "--no-deps", "--require-hashes", "-r", _LOCK_FILE]
        return self._run_step([self.installed.python, "-m", "pip", "install", *options])

    def _verify_version(self) -> str:
        """Return what is wrong with the installed version: it must start, and be able to run its doctor."""
        why = self._run_step([self.installed.python, "-m", "hermes", "version"])
        if why:
            return why
        ran = self._runner.run_command(
            [self.installed.python, "-m", "hermes", "doctor", "--json"], self._working_folder()
        )
        try:
            json.loads(ran.out)
        except ValueError:
            return tr("the new version cannot examine itself: {what}", what=to_one_line(ran.wrong, 200))
        return "" if ran.code in (0, 1) else to_one_line(ran.wrong, 200)

    def _installed_version(self) -> str:
        ran = self._runner.run_command([self.installed.python, "-m", "hermes", "version"], self._working_folder())
        return ran.out.strip().rpartition(" ")[2]

    def _newer_version(self) -> str:
        """Return the version that the index has, when it is another one."""
        where = [self.installed.python, "-m", "pip"]
        if self.installed.kind in (UV, UV_TOOL):
            ran = self._runner.run_command(
                ["uv", "pip", "install", "--python", self.installed.python, "--dry-run", "--upgrade", DISTRIBUTION],
                self._working_folder(),
            )
            lines = [line for line in ran.wrong.splitlines() if line.strip().startswith(f"+ {DISTRIBUTION}==")]
            found = lines[0].rpartition("==")[2].strip() if lines else ""
        else:
            options = ["--dry-run", "--quiet", "--no-deps", "--upgrade", "--report", "-"]
            ran = self._runner.run_command([*where, "install", *options, DISTRIBUTION], self._working_folder())
            found = _version_in_report(ran.out)
        if ran.code:
            raise StoreError(
                N_("The index cannot be asked: {what}.", what=to_one_line(ran.wrong, 300)),
                N_("Is this machine online, and is Hermes installed from there?"),
            )
        return "" if found == self.installed.version else found

    def _run_step(self, command: Sequence[str]) -> str:
        ran = self._runner.run_command(command, self._working_folder())
        if not ran.code:
            return ""
        said = to_one_line(ran.wrong.strip() or ran.out.strip(), 300)
        return tr("{command} ended with {code}: {said}", command=" ".join(command), code=ran.code, said=said)

    def _working_folder(self) -> str:
        return self.installed.root if self.installed.kind == CLONE else os.path.dirname(self.installed.python)

    def _open_git(self) -> Git:
        return Git(Path(self.installed.root), self._runner.environ)

    def _changed_files(self) -> list[str]:
        """List the changed files of a clone; files that git does not track do not count."""
        if self.installed.kind != CLONE:
            return []
        lines = self._open_git().run_git("status", "--porcelain", "--untracked-files=no").splitlines()
        return [line[3:] for line in lines]


def _version_in_report(text: str) -> str:
    """Return the version in pip's report of an installation; empty when nothing would be installed."""
    try:
        entries = json.loads(text)["install"]
        return str(entries[0]["metadata"]["version"]) if entries else ""
    except (ValueError, KeyError, TypeError, IndexError):
        return ""
