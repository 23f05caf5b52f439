"""Administration of profiles: homes of their own beside each other, shared by every front-end."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.config import profiles
from hermes.config.home import Home
from hermes.config.profiles import DEFAULT
from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.i18n.messages import phrase, say
from hermes.plugins import suggestion
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.open_sessions import must_be_idle

KEYS = (".env", "auth.json")
"""What of a home holds keys."""
CLONED = ("config.yaml", "SOUL.md", "memories", "skills")
"""What a clone takes along: how the agent is set up and what it knows, and nothing of what was said."""


class Profiles:
    """What can be done with profiles. Methods raise NotFoundError, UsageError, BusyError and StoreError."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._base = profiles.base_folder(environ)

    @property
    def overruled(self) -> str:
        """The folder that HERMES_HOME names, which comes before every profile; empty when it names none."""
        return self._environ.get("HERMES_HOME", "")

    def rows(self) -> list[Plain]:
        """Every profile: its folder, whether it is the one in use, whether it is the default."""
        return [self._row(name) for name in profiles.profile_names(self._base)]

    def show(self, name: str = "") -> Plain:
        """One profile, the one in use when none is named, with what is in it."""
        name = name or profiles.current_profile(self._environ)
        if not name:
            root = Path(self.overruled).expanduser().absolute()
            return {"name": "", "folder": str(root), "in_use": True, "default": False, **_contents(root)}
        folder = self._folder(name)
        return self._row(name) | _contents(folder)

    def create(self, name: str) -> Plain:
        """Make an empty profile."""
        with self._fresh(name):
            pass
        return self._row(name)

    def clone(self, name: str, source: str = "", *, keys: bool = False) -> Plain:
        """Make a profile with the settings, skills and memories of another (the one in use), and with `keys` its keys.

        Sessions, what they cost, and whom they trust are not taken along.
        """
        origin = self._folder(source) if source else Path(str(self.show()["folder"]))
        with self._fresh(name) as folder:
            for entry in (*CLONED, *(KEYS if keys else ())):
                if (origin / entry).is_dir():
                    shutil.copytree(origin / entry, folder / entry, symlinks=True)
                elif (origin / entry).is_file():
                    shutil.copy2(origin / entry, folder / entry)
            for entry in KEYS:
                if (folder / entry).exists():
                    (folder / entry).chmod(0o600)
        return self._row(name)

    def has_keys(self, source: str = "") -> bool:
        """Whether a profile (the one in use) holds keys."""
        origin = self._folder(source) if source else Path(str(self.show()["folder"]))
        return any((origin / entry).exists() for entry in KEYS)

    def use(self, name: str) -> Plain:
        """Use a profile from now on, wherever nothing else is said."""
        self._folder(name)
        self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        profiles.choose_profile(self._base, name)
        return self._row(name)

    def rename(self, name: str, new: str) -> Plain:
        """Give a profile another name."""
        folder, target = self._own(name), self._new(new)
        must_be_idle(Home(folder), say("The profile {name!r} cannot be renamed", name=name))
        try:
            os.rename(folder, target)
        except OSError as error:
            raise _cannot(folder, error) from None
        if profiles.chosen_profile(self._base) == name:
            profiles.choose_profile(self._base, new)
        return self._row(new)

    def delete(self, name: str) -> Plain:
        """Delete a profile with everything in it, its sessions and backups too."""
        row, folder = self._row(name), self._own(name)
        must_be_idle(Home(folder), say("The profile {name!r} cannot be deleted", name=name))
        gone = folder.with_name(f".{name}.{os.urandom(4).hex()}")
        if profiles.chosen_profile(self._base) == name:
            profiles.choose_profile(self._base, DEFAULT)
        try:
            os.rename(folder, gone)
            shutil.rmtree(gone)
        except OSError as error:
            raise _cannot(gone, error) from None
        return row

    def _row(self, name: str) -> Plain:
        folder = profiles.folder_of(self._base, name)
        return {
            "name": name,
            "folder": str(folder),
            "in_use": profiles.current_profile(self._environ) == name,
            "default": profiles.chosen_profile(self._base) == name,
            "sessions": (folder / "hermes.db").exists(),
        }

    def _folder(self, name: str) -> Path:
        names = profiles.profile_names(self._base)
        if name not in names:
            hint = suggestion(name, names) or phrase("`hermes profile list` shows those there are.")
            raise NotFoundError(phrase("There is no profile {name!r}.", name=name), hint)
        return profiles.folder_of(self._base, name)

    def _own(self, name: str) -> Path:
        """The folder of a profile that can be moved and deleted."""
        if name == DEFAULT:
            raise UsageError(phrase("The default profile is {folder} itself; it stays.", folder=self._base))
        return self._folder(name)

    def _new(self, name: str) -> Path:
        folder = profiles.folder_of(self._base, profiles.checked_name(name))
        if name == DEFAULT or os.path.lexists(folder):
            raise UsageError(phrase("There is a profile {name!r} already.", name=name))
        return folder

    @contextlib.contextmanager
    def _fresh(self, name: str) -> Iterator[Path]:
        """A folder for a new profile, which gets its name when everything is in it."""
        target = self._new(name)
        making = target.with_name(f".{name}.{os.urandom(4).hex()}")
        try:
            self._base.mkdir(mode=0o700, exist_ok=True)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            making.mkdir(mode=0o700)
            yield making
            os.rename(making, target)
        except OSError as error:
            raise _cannot(target, error) from None
        finally:
            shutil.rmtree(making, ignore_errors=True)


def _contents(folder: Path) -> Plain:
    """What a home has, told without opening anything."""
    return {
        "config": (folder / "config.yaml").is_file(),
        "keys": any((folder / entry).exists() for entry in KEYS),
        "skills": sum(one.is_file() for one in (folder / "skills").rglob("SKILL.md")),
        "memories": sorted(one.name for one in (folder / "memories").glob("*.md")),
        "backups": sum(one.is_file() for one in (folder / "backups").glob("*.zip")),
    }


def _cannot(path: Path, error: OSError) -> StoreError:
    return StoreError(phrase("{path} cannot be changed: {reason}.", path=error.filename or path, reason=error.strerror))
