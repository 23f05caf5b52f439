"""`hermes profile`, `/profile`: manage profiles, which are homes of their own.

`hermes home` shows the home folder, or agrees to share it.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.verb import JSON_OPTION, SHORT_YES_OPTION, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.home import (
    DEFAULT_PROFILE,
    HermesHome,
    check_profile_name,
    choose_profile,
    find_current_profile,
    list_profiles,
    locate_base_folder,
    locate_home,
    profile_folder,
    read_chosen_profile,
)
from hermes.core.encoding import Plain
from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.plugins import suggest_name
from hermes.sessions.open_sessions import require_no_open_session
from hermes.util.text import escape_unseen_characters

KEY_FILES = (".env", "auth.json")
"""The files of a home that hold keys."""
CLONED_FILES = ("config.yaml", "SOUL.md", "memories", "skills")
"""What a clone copies: how the agent is set up and what it knows, but no sessions."""


class ProfileAdmin:
    """Operations on profiles. Methods raise NotFoundError, UsageError, BusyError and StoreError."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._base = locate_base_folder(environ)

    @property
    def home_override(self) -> str:
        """The folder that HERMES_HOME names, which overrides every profile; empty when it names none."""
        return self._environ.get("HERMES_HOME", "")

    def list_profiles(self) -> list[Plain]:
        """List every profile: its folder, whether it is the one in use, whether it is the default."""
        return [self._profile_row(name) for name in list_profiles(self._base)]

    def show_profile(self, name: str = "") -> Plain:
        """Describe one profile with its contents; the one in use when none is named."""
        name = name or find_current_profile(self._environ)
        if not name:
            root = Path(self.home_override).expanduser().absolute()
            return {"name": "", "folder": str(root), "in_use": True, "default": False, **_describe_contents(root)}
        folder = self._existing_folder(name)
        return self._profile_row(name) | _describe_contents(folder)

    def create_profile(self, name: str) -> Plain:
        """Create an empty profile."""
        with self._create_folder(name):
            pass
        return self._profile_row(name)

    def clone_profile(self, name: str, source: str = "", *, keys: bool = False) -> Plain:
        """Create a profile with the settings, skills and memories of another one (the one in use).

        With `keys` its keys are copied, too. Sessions, their costs, and the trusted folders are not copied.
        """
        origin = self._existing_folder(source) if source else Path(str(self.show_profile()["folder"]))
        with self._create_folder(name) as folder:
            for entry in (*CLONED_FILES, *(KEY_FILES if keys else ())):
                if (origin / entry).is_dir():
                    shutil.copytree(origin / entry, folder / entry, symlinks=True)
                elif (origin / entry).is_file():
                    shutil.copy2(origin / entry, folder / entry)
            for entry in KEY_FILES:
                if (folder / entry).exists():
                    (folder / entry).chmod(0o600)
        return self._profile_row(name)

    def has_keys(self, source: str = "") -> bool:
        """Return whether a profile (the one in use) holds keys."""
        origin = self._existing_folder(source) if source else Path(str(self.show_profile()["folder"]))
        return any((origin / entry).exists() for entry in KEY_FILES)

    def set_default(self, name: str) -> Plain:
        """Use a profile from now on, wherever nothing else is said."""
        self._existing_folder(name)
        self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        choose_profile(self._base, name)
        return self._profile_row(name)

    def rename_profile(self, name: str, new: str) -> Plain:
        """Rename a profile."""
        folder, target = self._changeable_folder(name), self._free_folder(new)
        require_no_open_session(HermesHome(folder), tr("The profile {name!r} cannot be renamed", name=name))
        try:
            os.rename(folder, target)
        except OSError as error:
            raise _change_error(folder, error) from None
        if read_chosen_profile(self._base) == name:
            choose_profile(self._base, new)
        return self._profile_row(new)

    def delete_profile(self, name: str) -> Plain:
        """Delete a profile with everything in it, including its sessions and backups."""
        row, folder = self._profile_row(name), self._changeable_folder(name)
        require_no_open_session(HermesHome(folder), tr("The profile {name!r} cannot be deleted", name=name))
        gone = folder.with_name(f".{name}.{os.urandom(4).hex()}")
        if read_chosen_profile(self._base) == name:
            choose_profile(self._base, DEFAULT_PROFILE)
        try:
            os.rename(folder, gone)
            shutil.rmtree(gone)
        except OSError as error:
            raise _change_error(gone, error) from None
        return row

    def _profile_row(self, name: str) -> Plain:
        folder = profile_folder(self._base, name)
        return {
            "name": name,
            "folder": str(folder),
            "in_use": find_current_profile(self._environ) == name,
            "default": read_chosen_profile(self._base) == name,
            "sessions": (folder / "hermes.db").exists(),
        }

    def _existing_folder(self, name: str) -> Path:
        names = list_profiles(self._base)
        if name not in names:
            hint = suggest_name(name, names) or N_("`hermes profile list` shows those there are.")
            raise NotFoundError(N_("There is no profile {name!r}.", name=name), hint)
        return profile_folder(self._base, name)

    def _changeable_folder(self, name: str) -> Path:
        """Return the folder of a profile that can be moved and deleted."""
        if name == DEFAULT_PROFILE:
            raise UsageError(N_("The default profile is {folder} itself; it stays.", folder=self._base))
        return self._existing_folder(name)

    def _free_folder(self, name: str) -> Path:
        folder = profile_folder(self._base, check_profile_name(name))
        if name == DEFAULT_PROFILE or os.path.lexists(folder):
            raise UsageError(N_("There is a profile {name!r} already.", name=name))
        return folder

    @contextlib.contextmanager
    def _create_folder(self, name: str) -> Iterator[Path]:
        """Create a folder for a new profile; it gets its name when everything is in it."""
        target = self._free_folder(name)
        making = target.with_name(f".{name}.{os.urandom(4).hex()}")
        try:
            self._base.mkdir(mode=0o700, exist_ok=True)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            making.mkdir(mode=0o700)
            yield making
            os.rename(making, target)
        except OSError as error:
            raise _change_error(target, error) from None
        finally:
            shutil.rmtree(making, ignore_errors=True)


def _describe_contents(folder: Path) -> Plain:
    """Describe what a home holds, without opening any file."""
    return {
        "config": (folder / "config.yaml").is_file(),
        "keys": any((folder / entry).exists() for entry in KEY_FILES),
        "skills": sum(one.is_file() for one in (folder / "skills").rglob("SKILL.md")),
        "memories": sorted(one.name for one in (folder / "memories").glob("*.md")),
        "backups": sum(one.is_file() for one in (folder / "backups").glob("*.zip")),
    }


def _change_error(path: Path, error: OSError) -> StoreError:
    return StoreError(N_("{path} cannot be changed: {reason}.", path=error.filename or path, reason=error.strerror))


_NAME = argument("name", help="the profile")
PROFILE = Verb(
    "profile",
    description="Profiles are homes of their own: settings, keys, memories, skills and sessions of one are not seen by "
    "another. `-p NAME` uses one for a single command.",
    example="hermes profile clone work && hermes -p work",
)
HOME = Verb(
    "home",
    description="Show the home folder. `share` agrees that Hermes keeps its own files beside another program's.",
    example="hermes home share",
)


@PROFILE.action("list", "every profile (also without a verb)", JSON_OPTION)
def show_profiles(call: VerbCall) -> VerbResult:
    """List every profile."""
    profiles = ProfileAdmin(call.environ)
    listed = rows_result(profiles.list_profiles(), _format_profile_line, "")
    return VerbResult(listed.value, listed.lines, () if call.as_json else _overruled_notices(profiles))


@PROFILE.action("create", "make an empty one", JSON_OPTION, _NAME)
def create_profile(call: VerbCall) -> VerbResult:
    """Create an empty profile."""
    profiles = ProfileAdmin(call.environ)
    return _made_result(profiles, profiles.create_profile(call.args.name), call.args.name)


@PROFILE.action(
    "clone",
    "make one with the settings, skills and memories of another; never with its sessions",
    JSON_OPTION,
    _NAME,
    argument("--from", dest="source", default="", metavar="NAME", help="of which one (the one in use)"),
    argument("--keys", action="store_true", default=None, exclusive="keys", help="with its keys, without a question"),
    argument("--no-keys", action="store_false", dest="keys", exclusive="keys", help="without its keys"),
)
def clone_profile(call: VerbCall) -> VerbResult:
    """Create a profile from another one."""
    profiles, args = ProfileAdmin(call.environ), call.args
    takes_keys, notices = bool(args.keys), []
    if args.keys is None and profiles.has_keys(args.source):
        if sys.stdin.isatty():
            takes_keys = call.ask_yes_or_no(tr("Take the keys along, too?"))
        else:
            notices = [tr("The keys are not taken along; --keys does that.")]
    row = profiles.clone_profile(args.name, args.source, keys=takes_keys)
    return _made_result(profiles, row, args.name, notices)


@PROFILE.action("use", "use it from now on", JSON_OPTION, _NAME)
def use_profile(call: VerbCall) -> VerbResult:
    """Use a profile from now on."""
    profiles = ProfileAdmin(call.environ)
    row = profiles.set_default(call.args.name)
    return _profile_result(profiles, row, tr("The profile {name} is used from now on.", name=call.args.name))


@PROFILE.action(
    "show",
    "what is in one; without a name in the one in use",
    JSON_OPTION,
    argument("name", nargs="?", default="", help="the profile"),
)
def show_profile(call: VerbCall) -> VerbResult:
    """Show what is in a profile."""
    row = ProfileAdmin(call.environ).show_profile(call.args.name)
    return VerbResult(row, _format_profile(row))


@PROFILE.action("rename", "rename one", JSON_OPTION, _NAME, argument("new", metavar="NEW-NAME", help="its new name"))
def rename_profile(call: VerbCall) -> VerbResult:
    """Give a profile another name."""
    profiles, args = ProfileAdmin(call.environ), call.args
    row = profiles.rename_profile(args.name, args.new)
    return _profile_result(profiles, row, tr("The profile {name} is called {new} now.", name=args.name, new=args.new))


@PROFILE.action("delete", "delete one with everything in it", JSON_OPTION, _NAME, SHORT_YES_OPTION)
def delete_profile(call: VerbCall) -> VerbResult:
    """Delete a profile after a yes."""
    profiles = ProfileAdmin(call.environ)
    row = profiles.show_profile(call.args.name)
    about = tr("Delete the profile {name} with all its sessions and memories?", name=row["name"])
    call.require_yes_now(f"{escape_unseen_characters(str(row['folder']))}\n{about}", what=tr("Deleting"))
    row = profiles.delete_profile(call.args.name)
    return VerbResult(row, [tr("The profile {name} is deleted.", name=row["name"])])


@HOME.action("", "", argument("action", nargs="?", choices=["show", "share"], default="show"), JSON_OPTION)
async def show_home(call: VerbCall) -> VerbResult:
    """Show the home folder, or agree to share it."""
    home = locate_home(call.environ)
    if call.args.action == "share":
        from hermes.sessions.app import share_home

        await share_home(call.environ)
        message = "Hermes now keeps hermes.db and search.db in {root}; nothing else there was touched."
        return VerbResult(lines=[tr(message, root=home.root)])
    other, lines = home.find_foreign_file(), [str(home.root)]
    if other:
        message = "Another program keeps its state here too ({other}). `hermes home share` agrees to that."
        lines.append(tr(message, other=other))
    return VerbResult({"home": str(home.root), "shared_with": other}, lines)


def _made_result(profiles: ProfileAdmin, row: Plain, name: str, notices: Sequence[str] = ()) -> VerbResult:
    said = tr("The profile {name} is made. Use it with -p {name}.", name=name)
    return _profile_result(profiles, row, said, notices)


def _profile_result(profiles: ProfileAdmin, row: Plain, said: str, notices: Sequence[str] = ()) -> VerbResult:
    return VerbResult(row, [escape_unseen_characters(said)], [*notices, *_overruled_notices(profiles)])


def _overruled_notices(profiles: ProfileAdmin) -> list[str]:
    folder = profiles.home_override
    return [tr("HERMES_HOME is set to {folder} and comes before every profile.", folder=folder)] if folder else []


def _format_profile_line(row: Plain) -> str:
    return escape_unseen_characters(f"{'*' if row['in_use'] else ' '} {row['name']:<20} {row['folder']}")


def _format_profile(row: Plain) -> list[str]:
    memories = row["memories"]
    assert isinstance(memories, list)
    return [
        escape_unseen_characters(f"{row['name'] or tr('(no profile)')}  {row['folder']}"),
        "  " + (tr("settings: config.yaml") if row["config"] else tr("settings: none of its own")),
        "  " + (tr("keys: yes") if row["keys"] else tr("keys: none")),
        "  " + tr_plural("{n} skill of its own", "{n} skills of its own", int(str(row["skills"]))),
        "  " + tr("memories: {names}", names=escape_unseen_characters(", ".join(memories)) or tr("none")),
        "  " + tr_plural("{n} backup", "{n} backups", int(str(row["backups"]))),
    ]


COMMANDS = CommandList(CommandGroup.ABOUT)


@COMMANDS.command("profile", N_("the profile in use and its folder"))
async def tell_profile(call: CommandCall) -> None:
    """Show the profile in use and its folder."""
    call.require_no_arguments()
    on = call.context.app.services
    name = find_current_profile(on.environ)
    folder = escape_unseen_characters(str(on.home.root))
    if name:
        call.context.tell(tr("Profile {name}, in {folder}. `hermes profile list` shows all.", name=name, folder=folder))
    else:
        call.context.tell(tr("No profile: HERMES_HOME names {folder}.", folder=folder))
