"""Package programs: removals ask, and removing what the system stands on is refused."""

import re
from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall, Rule
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import fetched, services
from hermes.safety.shell.words import ShellStream, word_set

_LOSES = "it removes programs that others may need"
_PROGRAMS = word_set("""
    apt apt-get aptitude nala dpkg yum dnf dnf5 microdnf tdnf rpm rpm-ostree pacman yay paru pamac zypper apk eopkg brew
    snap flatpak emerge nix-env nix port rustup choco scoop winget xbps-remove pkg pkgutil opkg slackpkg removepkg gem
    nix-collect-garbage guix
""")
_REMOVES = re.compile(
    r"(auto|full-?|dist-)?(purge|remove|upgrade|uninstall|erase|delete|del|rm|unmerge|depclean|downgrade|swap|untap|"
    r"override|rollback|rebase|reset|disable|stop|cleanup|clean|wipe-history|gc|dup|self)\S*|-R\w*|-\w*Scc?|-\w*e|-P|-r|"
    r"-\w*C|-d|--(purge|remove|erase|unmerge|depclean|uninstall|forget|force|nodeps|delete)\S*"
)
"""A word by which a package program removes something."""
_OF_THE_PERSON = word_set("gem brew flatpak nix guix choco scoop winget port")
"""Package programs whose packages nothing else stands on: only removing many of them asks."""
_ESSENTIAL = re.compile(
    r"(libc6?|glibc\S*|musl|bash|dash|coreutils|util-linux|systemd\S*|init|sysvinit\S*|upstart|openrc|linux(-image\S*|-lts|"
    r"-kernel\S*)?|kernel\S*|grub\S*|shim\S*|base|base-files|filesystem|apt|dpkg|rpm|dnf|yum|pacman|zypper|busybox|"
    r"alpine-base\S*|login|passwd|shadow\S*|libpam\S*|pam|sudo|perl-base|python3-minimal|udev|dbus|e2fsprogs|mount|"
    r"libstdc\+\+6|libgcc\S*|ld-linux\S*|libsystemd\S*|ubuntu-(minimal|desktop|server)|debianutils|sed|grep|gzip|tar|"
    r"\*|\.\*|\?\S*|~i|~n\S*)(:\w+)?$"
)
_EXTREME = word_set("--allow-remove-essential --force-all --force-remove-essential --nodeps --force-depends -Rdd")
_BREW_WIDE = word_set("--force --zap --ignore-dependencies")
"""Options with which brew removes more than one package."""
_TRIED = word_set("-s --simulate --dry-run --just-print --help --no-act --assumeno --test -n --print --recon")
_INSTALLING = word_set("install add -S -i -U upgrade update -Syu reinstall -Sy get localinstall in")


def judge(call: ProgramCall) -> ShellStream | None:
    """A package program: what it removes, and what it installs from where."""
    args = call.args
    fetched.installs(call)
    if call.name == "brew":
        services.homebrew_services(call)
    if _TRIED.intersection(args) and call.name not in ("rpm", "yum"):
        return None
    at = next((place for place, text in enumerate(args) if _REMOVES.fullmatch(text) and _may_remove(call, text)), -1)
    if at < 0:
        _installed(call)
    else:
        _removed(call, args[at], [text for text in args[at + 1 :] if not text.startswith("-")])
    return None


def _may_remove(call: ProgramCall, word: str) -> bool:
    """Return whether a word removes in this program: letters mean other things in each."""
    letters = {"rpm": "e", "dpkg": "Pr", "emerge": "cC", "nix-env": "e", "nix-collect-garbage": "d"}
    if word.startswith("-") and not word.startswith(("--", "-R", "-Scc")):
        return any(letter in word for letter in letters.get(call.name, ""))
    return word not in ("upgrade", "clean", "reset") and (word != "self" or call.name == "rustup")


def _removed(call: ProgramCall, verb: str, named: Sequence[str]) -> None:
    system = call.name not in _OF_THE_PERSON
    if system and named and (any(map(_ESSENTIAL.match, named)) or not _EXTREME.isdisjoint(call.args)):
        call.add_effect(EffectKind.DELETES, named)
        call.deny("packages-essential", "it removes what the system stands on")
    elif call.name != "brew" or verb in ("remove", "autoremove") or not _BREW_WIDE.isdisjoint(call.args):
        call.ask("packages", _LOSES, effect=EffectKind.DELETES, targets=named)


def _installed(call: ProgramCall) -> None:
    if not _INSTALLING.intersection(call.args):
        return
    call.add_effect(EffectKind.FETCHES, ("registry",))
    call.add_effect(EffectKind.RUNS, ("registry",))


RULES: dict[str, Rule] = {**dict.fromkeys(_PROGRAMS, judge)}
