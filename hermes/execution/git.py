"""Runs git for Hermes itself, without running anything that a repository contains.

Hooks, filters, the file system monitor and pagers are switched off on the command line, which overrides every setting
of the repository; the person's own settings stay. Differences, which a repository's programs may show, are never asked
for.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.i18n.messages import N_
from hermes.util.text import escape_confusable_characters, to_one_line

_SECONDS = 120.0
_SAFE_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "protocol.ext.allow=never",
    "log.showSignature=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_REPOSITORY_SCOPES = ("local", "worktree")
_RISKY_SETTINGS = r"^(filter\..*|remote\..*\.promisor|extensions\.partialclone)$"


class Git:
    """Git in one folder. Methods raise StoreError with git's own message when it fails."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *, seconds: float = _SECONDS, trusted: bool = False
    ) -> None:
        self.folder = folder
        self._trusted = trusted
        self._seconds = seconds
        kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        self._environ = kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        self._off: list[str] | None = None

    def run_git(self, *arguments: str) -> str:
        """Run git and return its output without the last newline. Raises StoreError when it fails."""
        code, said, wrong = self.try_git(*arguments)
        if code:
            raise StoreError(
                N_("git {verb} failed: {what}", verb=arguments[0], what=to_one_line(wrong or said, 300) or str(code))
            )
        return said

    def try_git(self, *arguments: str) -> tuple[int, str, str]:
        """Run git and return the exit code, standard output and standard error."""
        return self._run_process([*self._safety_options(), *arguments])

    def _safety_options(self) -> Sequence[str]:
        """Return the options that switch off what the repository's own settings would run."""
        if self._off is None:
            off = list(_SAFE_SETTINGS)
            code, said, _ = self._run_process(
                ["config", "-z", "--show-scope", "--name-only", "--get-regexp", _RISKY_SETTINGS]
            )
            words = said.split("\0") if not code else []
            for scope, name in zip(words[::2], words[1::2], strict=False):
                if scope not in _REPOSITORY_SCOPES:
                    continue
                if name.startswith("filter."):
                    self._require_plain_name(name)
                    off.append(f"{name}={'false' if name.endswith('.required') else ''}")
                elif not self._trusted:
                    raise self._refusal_error(name)
            self._off = [word for setting in off for word in ("-c", setting)]
        return self._off

    def _require_plain_name(self, name: str) -> None:
        """Raise for a name that cannot be switched off: git would read it differently on the command line."""
        if "=" in name or not name.isprintable():
            raise self._refusal_error(name)

    def _refusal_error(self, name: str) -> StoreError:
        what = to_one_line(escape_confusable_characters(name), 100)
        return StoreError(
            N_("A setting of the repository {folder} could run programs: {what}.", folder=self.folder, what=what),
            N_("Take it out of .git/config, or use the repository without Hermes' worktrees."),
        )

    def _run_process(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        try:
            done = subprocess.run(
                ["git", "--no-pager", *arguments],
                cwd=self.folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._seconds,
                check=False,
            )
        except FileNotFoundError:
            raise NotFoundError(N_("git is not installed."), N_("Install it and try again.")) from None
        except subprocess.TimeoutExpired:
            raise StoreError(N_("git did not end within {seconds} s.", seconds=f"{self._seconds:g}")) from None
        except OSError as error:
            raise StoreError(N_("git cannot be run: {reason}.", reason=error.strerror)) from None
        out, wrong = (os.fsdecode(text).rstrip("\n") for text in (done.stdout, done.stderr))
        return done.returncode, out, wrong


def find_repository(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the top of the work tree that a folder is in. Raises UsageError where there is none."""
    code, top, _ = Git(folder, environ).try_git("rev-parse", "--show-toplevel")
    if code or not top:
        raise UsageError(
            N_("{folder} is in no git repository.", folder=folder), N_("Go to one, or do without a worktree.")
        )
    return Path(top)
