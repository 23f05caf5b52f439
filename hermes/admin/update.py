"""Updating this installation: what it is, what updates it, and going back when the new version does not work."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import hermes
from hermes.admin.backup import back_up_by_itself
from hermes.admin.git import Git
from hermes.config.home import locate_home
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.i18n.messages import phrase, say
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.open_sessions import must_be_idle
from hermes.util.text import one_line

DISTRIBUTION = "hermes-anew"
CLONE, PIP, UV, UV_TOOL, PIPX, UNKNOWN = "clone", "pip", "uv", "uv tool", "pipx", "unknown"
_SECONDS = 600.0
_LOCKED = "requirements/run.txt"


class Installation(Struct, frozen=True, kw_only=True):
    """How a Hermes was installed: `root` is the clone's folder, or where the package lies; `python` runs it."""

    kind: str
    root: str
    python: str
    version: str


class Ran(Struct, frozen=True):
    """How a command ended, and what it said."""

    code: int
    out: str
    wrong: str


class Runner:
    """Runs the commands of an update, with the environment that it was made with."""

    def __init__(self, environ: Mapping[str, str], *, seconds: float = _SECONDS) -> None:
        self.environ = dict(environ)
        self._seconds = seconds

    def run(self, command: Sequence[str], folder: str) -> Ran:
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
            return Ran(127, "", f"{command[0]}: {error.strerror}")
        except subprocess.TimeoutExpired:
            return Ran(124, "", say("{program} did not end within {n} s", program=command[0], n=f"{self._seconds:g}"))
        return Ran(done.returncode, done.stdout, done.stderr)


def this_installation() -> Installation:
    """The installation that runs now."""
    package = Path(hermes.__file__).resolve().parent
    return Installation(
        kind=_kind(package, Path(sys.prefix)),
        root=str(package.parent),
        python=sys.executable,
        version=hermes.__version__,
    )


def _kind(package: Path, prefix: Path) -> str:
    if (package.parent / ".git").exists() and (package.parent / "pyproject.toml").exists():
        return CLONE
    if (prefix / "uv-receipt.toml").exists():
        return UV_TOOL
    if (prefix / "pipx_metadata.json").exists():
        return PIPX
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installer = (distribution(DISTRIBUTION).read_text("INSTALLER") or "").strip()
    except PackageNotFoundError:
        return UNKNOWN
    return UV if installer == "uv" else PIP


class Updater:
    """What can be done to update an installation. Nothing happens by itself."""

    def __init__(self, installed: Installation, environ: Mapping[str, str], runner: Runner | None = None) -> None:
        self.installed = installed
        self._environ = environ
        self._runner = runner or Runner(environ)

    def command(self) -> list[str]:
        """The command that updates; empty where nobody knows one."""
        python = self.installed.python
        return {
            CLONE: ["git", "merge", "--ff-only", "@{upstream}"],
            PIP: [python, "-m", "pip", "install", "--upgrade", DISTRIBUTION],
            UV: ["uv", "pip", "install", "--python", python, "--upgrade", DISTRIBUTION],
            UV_TOOL: ["uv", "tool", "upgrade", DISTRIBUTION],
            PIPX: ["pipx", "upgrade", DISTRIBUTION],
        }.get(self.installed.kind, [])

    def about(self) -> Plain:
        """What this installation is and what would be run; nobody is asked."""
        return {
            "version": self.installed.version,
            "kind": self.installed.kind,
            "root": self.installed.root,
            "python": self.installed.python,
            "command": self.command(),
            "changed_files": self._changed(),
        }

    def check(self) -> Plain:
        """What there is that is newer; asks the index, or the repository that the clone came from.

        `newer` is the newer version, or for a clone how many commits are new; empty when there is nothing new.
        """
        row = self.about()
        if self.installed.kind == CLONE:
            git = self._git()
            git.run("fetch", "--quiet")
            count = git.run("rev-list", "--count", "HEAD..@{upstream}")
            return row | {"newer": "" if count == "0" else say("{count} new commits", count=count)}
        if not row["command"]:
            raise UsageError(
                phrase("Nobody knows how this Hermes in {folder} was installed.", folder=self.installed.root),
                phrase("Update it the way it was installed."),
            )
        return row | {"newer": self._newer()}

    def update(self) -> Plain:
        """Back up, update, try the new version out, and go back to the old one when that fails.

        Raises UsageError for a clone with changes, BusyError while a session is open, StoreError when it failed: then
        the old version is there again.
        """
        row = self.check()
        if changed := row["changed_files"]:
            assert isinstance(changed, list)
            raise UsageError(
                phrase(
                    "The clone in {folder} has changes: {files}.",
                    folder=self.installed.root,
                    files=", ".join(changed[:5]),
                ),
                phrase("Commit or stash them first."),
            )
        if not row["newer"]:
            return row | {"updated": False}
        home = locate_home(self._environ)
        must_be_idle(home, say("Hermes cannot be updated"))
        before = back_up_by_itself(home)
        row["backup"] = before["file"] if before is not None else None
        old = self._git().run("rev-parse", "HEAD") if self.installed.kind == CLONE else self.installed.version
        why = self._forward(old) or self._tried_out()
        if why:
            back = self._back(old)
            if back:
                raise StoreError(
                    phrase("The update failed ({why}), and going back failed, too: {what}.", why=why, what=back),
                    phrase("To go back by hand: {command}", command=" ".join(self._way_back(old))),
                )
            raise StoreError(
                phrase("The update failed: {why}.", why=why),
                phrase("Version {old} is there again.", old=self.installed.version),
            )
        return row | {"updated": True, "now": self._version()}

    def _forward(self, old: str) -> str:
        """Bring the new version; what went wrong, in words."""
        if self.installed.kind != CLONE:
            return self._failed(self.command())
        try:
            self._git().run(*self.command()[1:])
        except HermesError as error:
            return str(error)
        return self._locked(old, "HEAD")

    def _back(self, old: str) -> str:
        if self.installed.kind != CLONE:
            return self._failed(self._way_back(old))
        try:
            git = self._git()
            new = git.run("rev-parse", "HEAD")
            git.run(*self._way_back(old)[1:])
        except HermesError as error:
            return str(error)
        return self._locked(new, "HEAD")

    def _way_back(self, old: str) -> list[str]:
        python, pinned = self.installed.python, f"{DISTRIBUTION}=={old}"
        return {
            CLONE: ["git", "reset", "--quiet", "--keep", old],
            PIP: [python, "-m", "pip", "install", pinned],
            UV: ["uv", "pip", "install", "--python", python, pinned],
            UV_TOOL: ["uv", "tool", "install", "--force", pinned],
            PIPX: ["pipx", "install", "--force", pinned],
        }[self.installed.kind]

    def _locked(self, before: str, after: str) -> str:
        """Install what a clone's lock file names, when that has changed; what went wrong."""
        if not self._git().run("diff", "--no-ext-diff", "--no-textconv", "--name-only", before, after, "--", _LOCKED):
            return ""
        options = ["--quiet", "--no-deps", "--require-hashes", "-r", _LOCKED]
        return self._failed([self.installed.python, "-m", "pip", "install", *options])

    def _tried_out(self) -> str:
        """What is wrong with the version that is there now: it must start, and be able to examine itself."""
        why = self._failed([self.installed.python, "-m", "hermes", "version"])
        if why:
            return why
        ran = self._runner.run([self.installed.python, "-m", "hermes", "doctor", "--json"], self._stand())
        try:
            json.loads(ran.out)
        except ValueError:
            return say("the new version cannot examine itself: {what}", what=one_line(ran.wrong, 200))
        return "" if ran.code in (0, 1) else one_line(ran.wrong, 200)

    def _version(self) -> str:
        ran = self._runner.run([self.installed.python, "-m", "hermes", "version"], self._stand())
        return ran.out.strip().rpartition(" ")[2]

    def _newer(self) -> str:
        """The version that the index has, when that is another one."""
        where = [self.installed.python, "-m", "pip"]
        if self.installed.kind in (UV, UV_TOOL):
            ran = self._runner.run(
                ["uv", "pip", "install", "--python", self.installed.python, "--dry-run", "--upgrade", DISTRIBUTION],
                self._stand(),
            )
            lines = [line for line in ran.wrong.splitlines() if line.strip().startswith(f"+ {DISTRIBUTION}==")]
            found = lines[0].rpartition("==")[2].strip() if lines else ""
        else:
            options = ["--dry-run", "--quiet", "--no-deps", "--upgrade", "--report", "-"]
            ran = self._runner.run([*where, "install", *options, DISTRIBUTION], self._stand())
            found = _reported(ran.out)
        if ran.code:
            raise StoreError(phrase("The index cannot be asked: {what}.", what=one_line(ran.wrong, 300)))
        return "" if found == self.installed.version else found

    def _failed(self, command: Sequence[str]) -> str:
        ran = self._runner.run(command, self._stand())
        if not ran.code:
            return ""
        said = one_line(ran.wrong.strip() or ran.out.strip(), 300)
        return say("{command} ended with {code}: {said}", command=" ".join(command), code=ran.code, said=said)

    def _stand(self) -> str:
        return self.installed.root if self.installed.kind == CLONE else os.path.dirname(self.installed.python)

    def _git(self) -> Git:
        return Git(Path(self.installed.root), self._runner.environ)

    def _changed(self) -> list[str]:
        """The changed files of a clone; files that git does not know count for nothing."""
        if self.installed.kind != CLONE:
            return []
        lines = self._git().run("status", "--porcelain", "--untracked-files=no").splitlines()
        return [line[3:] for line in lines]


def _reported(text: str) -> str:
    """The version that pip's report of an installation names; empty when nothing would be installed."""
    try:
        entries = json.loads(text)["install"]
        return str(entries[0]["metadata"]["version"]) if entries else ""
    except (ValueError, KeyError, TypeError, IndexError):
        return ""
