"""Create git worktrees for runs (`-w`) in `~/.hermes-worktrees`, outside of the repository and the home.

Beside each is a record of its repository and branch, which nothing in the worktree can change.
"""

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from hermes.config.home import locate_base_folder, locate_home
from hermes.config.trusted_folders import TrustFile, set_trust
from hermes.core.encoding import Plain, to_json
from hermes.core.errors import BusyError, HermesError, NotFoundError, StoreError, UsageError
from hermes.execution.git import Git, find_repository
from hermes.execution.git_programs import list_repository_programs
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.plugins import suggest_name
from hermes.util.atomic_write import write_atomic
from hermes.util.file_lock import hold_file_lock, is_lock_held

_WORKTREE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SETUP_LOCK = ".setup.lock"
_SETUP_SECONDS = 300.0
"""Seconds that one worktree waits for the making of others."""
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")


class WorktreeRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored record of a worktree: its repository, branch, and the commit that it began at."""

    repository: str
    branch: str
    base: str
    made_at: float
    is_ready: bool = True
    """Whether git has made it; one that is not was cut off, and holds no work."""


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree that is ready: `folder` is where the run starts in it, as it did in the repository."""

    name: str
    folder: str
    branch: str
    fresh: bool
    root: str = ""
    is_trusted: bool = False
    """Whether its repository's folder is trusted, and so this one."""


class KeptWorktree(Struct, frozen=True):
    """A worktree that stays after its run; `work` is what it holds, in words."""

    folder: str
    branch: str
    work: str
    has_changes: bool
    """Whether there are changes that no commit holds."""


class Worktrees:
    """The worktrees of a user. Methods raise HermesError."""

    def __init__(self, environ: Mapping[str, str], trusted_folders: Sequence[str] = ()) -> None:
        self._environ = environ
        self._root = locate_base_folder(environ).with_name(".hermes-worktrees")
        self._trusted_folders = tuple(trusted_folders)

    @contextlib.contextmanager
    def open_worktree(self, folder: Path, name: str = "") -> Iterator[tuple[Worktree, list[str]]]:
        """Open a worktree for a run that was started in `folder`: a new one, or the one of that name.

        It comes with a list that afterwards holds the messages about it. One without changes and commits is
        removed again, any other stays. It is trusted as the repository's folder is. Raises UsageError outside
        of a repository, BusyError while another run uses the worktree.
        """
        said: list[str] = []
        with self.hold_worktree(folder, name) as made:
            try:
                yield made, said
            finally:
                said += self._finish_worktree(made.name)

    @contextlib.contextmanager
    def hold_worktree(self, folder: Path, name: str = "") -> Iterator[Worktree]:
        """Open a worktree as `open_worktree` does, and leave it as it is afterwards: `settle_worktree` removes it."""
        top = self.check_repository(folder)
        name = self._check_name(name) if name else self._generate_name(top)
        self._root.mkdir(mode=0o700, exist_ok=True)
        with self._lock_worktree(name):
            record = self._read_record(name)
            if record is not None and not record.is_ready:
                self._delete_worktree(name, record, force=True)
                record = None
            fresh = record is None
            if record is None:
                record = self._create_worktree(name, top)
            elif Path(record.repository) != self._find_origin(top):
                raise UsageError(
                    N_("The worktree {name} is of {folder}.", name=name, folder=record.repository),
                    N_("Choose another name."),
                )
            root = self._root / name
            inside = root / folder.resolve().relative_to(top.resolve())
            yield Worktree(
                name=name,
                folder=str(inside if inside.is_dir() else root),
                branch=record.branch,
                fresh=fresh,
                root=os.path.realpath(root),
                is_trusted=self._is_trusted(self._find_origin(top)),
            )

    def check_repository(self, folder: Path) -> Path:
        """Return the top of the repository that a folder is in. Raises UsageError where there is none, and where git
        could run programs that an untrusted repository names.
        """
        top = find_repository(folder, self._environ)
        self._require_safe_git(self._find_origin(top))
        return top

    def settle_worktree(self, name: str) -> KeptWorktree | None:
        """Remove a worktree without changes and commits, which nobody works in any more; return it where it stays."""
        record = self._read_record(name)
        if record is None:
            return None
        row = self._worktree_row(name)
        if not record.is_ready or not (row["wrong"] or row["changes"] or row["commits"]):
            self._delete_worktree(name, record, force=not record.is_ready)
            if self._read_record(name) is None:
                return None
        work = _describe_work(row) or tr("no changes")
        return KeptWorktree(os.path.realpath(self._root / name), record.branch, work, has_changes=bool(row["changes"]))

    def list_worktrees(self) -> list[Plain]:
        """List every worktree with what is in it, the newest first."""
        return sorted(
            (self._worktree_row(name) for name in self._worktree_names()), key=lambda row: -float(str(row["made_at"]))
        )

    def remove_worktree(self, name: str, *, force: bool = False) -> Plain:
        """Remove a worktree. One with changes, or with commits that are on no other branch, needs `force`."""
        if name not in self._worktree_names():
            hint = suggest_name(name, self._worktree_names()) or N_("`hermes worktree list` shows those there are.")
            raise NotFoundError(N_("There is no worktree {name!r}.", name=name), hint)
        with self._lock_worktree(name):
            record = self._read_record(name)
            assert record is not None
            row = self._worktree_row(name)
            if not force and (row["changes"] or row["commits"] or row["wrong"]):
                raise UsageError(
                    N_("The worktree {name} holds work: {what}.", name=name, what=_describe_work(row)),
                    N_("--force removes it with its branch all the same."),
                )
            self._delete_worktree(name, record, force=True)
        return row

    def _require_safe_git(self, top: Path) -> None:
        """Raise UsageError where git could run programs that an untrusted repository names."""
        if self._is_trusted(top):
            return
        found = list_repository_programs(str(top))
        if found == []:
            return
        names = ", ".join(os.path.relpath(one, top) for one in (found or ())[:5])
        raise UsageError(
            N_("Git could run programs of {folder}: {what}.", folder=top, what=names or tr("it is linked to others")),
            N_("Look at them; if they are yours, `hermes trust {folder}`.", folder=top),
        )

    def _open_git(self, top: Path) -> Git:
        return Git(top, self._environ, trusted=self._is_trusted(top))

    def _finish_worktree(self, name: str) -> list[str]:
        """Remove a worktree without changes after its run; return the messages about it."""
        record = self._read_record(name)
        if record is None:
            return []
        try:
            kept = self.settle_worktree(name)
        except HermesError as error:
            return [str(error)]
        if kept is None:
            return [tr("The worktree {name} had no changes and is removed.", name=name)]
        folder, branch = kept.folder, kept.branch
        lines = [
            tr(
                "Work is left in {folder}, on the branch {branch}: {what}.",
                folder=folder,
                branch=branch,
                what=kept.work,
            )
        ]
        if kept.has_changes:
            lines.append(tr("To commit it: git -C {folder} add -A && git -C {folder} commit", folder=folder))
        lines.append(tr("To merge it: git -C {folder} merge {branch}", folder=record.repository, branch=record.branch))
        lines.append(tr("To remove it: hermes worktree remove {name} --force", name=name))
        return lines

    def _create_worktree(self, name: str, top: Path) -> WorktreeRecord:
        git, origin = self._open_git(top), self._find_origin(top)
        if origin != top:
            known = self._read_record(top.name)
            assert known is not None
            git = self._git_of_worktree(top, known)
        code, base, _ = git.try_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if code:
            raise UsageError(N_("{folder} has no commit yet.", folder=top), N_("Commit something first."))
        record = WorktreeRecord(
            repository=str(origin), branch=f"hermes/{name}", base=base, made_at=time.time(), is_ready=False
        )
        root = self._root / name
        with self._hold_setup_lock(root):
            self._write_record(name, record)
            try:
                self._open_git(origin).run_git("worktree", "add", "--quiet", "-b", record.branch, str(root), base)
            except HermesError:
                self._record_file(name).unlink(missing_ok=True)
                raise
            root.chmod(0o700)
            self._set_trust(root, trusted=self._is_trusted(origin))
            record = structs.replace(record, is_ready=True)
            self._write_record(name, record)
        return record

    @contextlib.contextmanager
    def _hold_setup_lock(self, root: Path) -> Iterator[None]:
        """Keep others from making and removing worktrees meanwhile: git's branches and the list of trusted folders are
        changed with it. Raises BusyError, StoreError.
        """
        try:
            with hold_file_lock(self._root / _SETUP_LOCK, _SETUP_SECONDS):
                yield
        except TimeoutError:
            raise BusyError(N_("Another worktree is being made."), N_("Try again.")) from None
        except OSError as error:
            raise StoreError(N_("{path} cannot be written: {reason}.", path=root, reason=error.strerror)) from None

    def _find_origin(self, top: Path) -> Path:
        """Return the repository that a worktree of these is of; of any other folder itself."""
        record = self._read_record(top.name) if top.parent == self._root.resolve() else None
        return top if record is None else Path(record.repository)

    def _write_record(self, name: str, record: WorktreeRecord) -> None:
        write_atomic(self._record_file(name), to_json(record), mode=0o600)

    def _delete_worktree(self, name: str, record: WorktreeRecord, *, force: bool) -> None:
        """Remove the folder, its branch where that has no own commits (or by `force`), and the record."""
        root = self._root / name
        with self._hold_setup_lock(root):
            if os.path.isdir(record.repository):
                git = self._open_git(Path(record.repository))
                code, _, _ = git.try_git("worktree", "remove", *(["--force"] if force else []), str(root))
                if code and not force:
                    return
                if force:
                    shutil.rmtree(root, ignore_errors=True)
                    git.try_git("worktree", "prune")
                git.try_git("branch", "--quiet", "-D", record.branch)
            else:
                shutil.rmtree(root, ignore_errors=True)
            self._set_trust(root, trusted=False)
            self._record_file(name).unlink(missing_ok=True)

    def _worktree_row(self, name: str) -> Plain:
        record = self._read_record(name)
        assert record is not None
        root = self._root / name
        row: Plain = {
            "name": name,
            "folder": str(root),
            "repository": record.repository,
            "branch": record.branch,
            "made_at": record.made_at,
            "changes": 0,
            "commits": 0,
            "in_use": is_lock_held(self._record_file(name, ".lock")),
            "wrong": "",
        }
        try:
            # The repository's own notion of the worktree counts: what stands in the worktree's `.git` may be anything.
            git = self._git_of_worktree(root, record)
            row["changes"] = len(git.run_git("status", "--porcelain", "--untracked-files=all").splitlines())
            commits = self._open_git(Path(record.repository)).run_git(
                "rev-list", "--count", f"{record.base}..{record.branch}"
            )
            row["commits"] = int(commits)
        except (HermesError, ValueError) as error:
            row["wrong"] = str(error)
        return row

    def _git_of_worktree(self, root: Path, record: WorktreeRecord) -> Git:
        """Return git for the worktree, with its data folder named by the repository and
        not by a file in the worktree.
        """
        common = self._open_git(Path(record.repository)).run_git(
            "rev-parse", "--path-format=absolute", "--git-common-dir"
        )
        for place in Path(common, "worktrees").iterdir() if Path(common, "worktrees").is_dir() else ():
            with contextlib.suppress(OSError):
                if Path((place / "gitdir").read_text("utf-8").strip()) == root / ".git":
                    return _WorktreeGit(root, self._environ, place, trusted=self._is_trusted(Path(record.repository)))
        raise StoreError(N_("git knows no worktree at {folder}.", folder=root))

    def _set_trust(self, root: Path, *, trusted: bool) -> None:
        home = locate_home(self._environ)
        if trusted:
            home.ensure_exists()
        if home.trust_file.exists():
            with contextlib.suppress(HermesError):
                set_trust(home.trust_file, str(root), trusted=trusted)

    def _is_trusted(self, top: Path) -> bool:
        return TrustFile(locate_home(self._environ).trust_file, self._trusted_folders).is_trusted_folder(
            os.path.realpath(top)
        )

    def _worktree_names(self) -> list[str]:
        return sorted(one.stem for one in self._root.glob("*.json")) if self._root.is_dir() else []

    def _read_record(self, name: str) -> WorktreeRecord | None:
        try:
            return msgspec.json.decode(self._record_file(name).read_bytes(), type=WorktreeRecord)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            raise StoreError(N_("{file} cannot be read.", file=self._record_file(name)), N_("Remove it.")) from None

    def _record_file(self, name: str, suffix: str = ".json") -> Path:
        return self._root / f"{name}{suffix}"

    def _check_name(self, name: str) -> str:
        if not _WORKTREE_NAME.fullmatch(name) or name.endswith((".json", ".lock", ".")) or ".." in name:
            raise UsageError(
                N_("{name!r} cannot be a worktree's name.", name=name[:80]),
                N_("Use letters, digits, `_`, `-` and `.`, 64 at most."),
            )
        return name

    def _generate_name(self, top: Path) -> str:
        stem = _UNSAFE_CHARACTERS.sub("-", top.name).strip("-_")[:40] or "work"
        return f"{stem}-{time.strftime('%m%d')}-{os.urandom(2).hex()}"

    @contextlib.contextmanager
    def _lock_worktree(self, name: str) -> Iterator[None]:
        file = self._record_file(name, ".lock")
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
            if not self._record_file(name).exists():
                file.unlink(missing_ok=True)
        except BlockingIOError:
            raise BusyError(
                N_("The worktree {name} is in use by another run.", name=name), N_("Choose another name.")
            ) from None
        finally:
            os.close(handle)


class _WorktreeGit(Git):
    """Git with its folders given, so that it looks for none."""

    def __init__(self, root: Path, environ: Mapping[str, str], git_folder: Path, *, trusted: bool) -> None:
        super().__init__(root, environ, trusted=trusted)
        self._environ |= {"GIT_DIR": str(git_folder), "GIT_WORK_TREE": str(root)}


def _describe_work(row: Plain) -> str:
    """Describe what a worktree holds."""
    changes, commits = int(str(row["changes"])), int(str(row["commits"]))
    parts = [
        *([tr_plural("{n} changed file", "{n} changed files", changes)] if changes else []),
        *([tr_plural("{n} commit", "{n} commits", commits)] if commits else []),
        *([str(row["wrong"])] if row["wrong"] else []),
    ]
    return ", ".join(parts)
