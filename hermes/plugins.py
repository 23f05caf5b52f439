"""The loader of extensions: built-ins from a folder, plug-ins from entry points.

Built-ins are found by scanning a folder's file names, so listing them imports nothing; a name's module is imported when
it is used. Plug-ins register under the entry point group `hermes.<kind>`; those are read only when a name is not built
in, since reading the installed packages' metadata costs tens of milliseconds.

An installed package is trusted code that runs in this process, so nothing of it is imported before the person has
enabled it: `PACKAGES` asks the home that the process has opened.
"""

import importlib
import os
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from importlib.metadata import Distribution

KINDS = ("tools", "platforms", "providers", "commands", "memory_providers", "context_engines", "hooks")
"""The kinds of what a package may offer, each under an entry point group `hermes.<kind>`."""
GROUPS = {f"hermes.{kind}": kind for kind in KINDS}


PACKAGE_PREFIX = "package:"
"""What the keys of consents to packages begin with."""


class InstalledPackage(NamedTuple):
    """An installed distribution that offers something to Hermes: `offers` are pairs of kind and name.

    `digest` is that of the list of its files with their hashes, where its installer has kept one.
    """

    name: str
    version: str
    digest: str
    offers: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """The key under which the consent to it is kept."""
        return f"{PACKAGE_PREFIX}{self.name}"


class PackageGate:
    """Tells which installed packages may be imported: none before a home is used."""

    def __init__(self) -> None:
        self._is_enabled: Callable[[InstalledPackage], bool] = _say_no
        self._is_changed: Callable[[InstalledPackage], bool] = _say_no
        self._has_any: Callable[[], bool] = lambda: False
        self.generation = 0
        """How often the consents were replaced, for whoever keeps what was loaded by them."""

    def use(
        self,
        is_enabled: Callable[[InstalledPackage], bool],
        *,
        is_changed: Callable[[InstalledPackage], bool] | None = None,
        has_any: Callable[[], bool] = lambda: True,
    ) -> None:
        """Ask these functions from now on; the process uses the consents of the home that it opened last.

        `has_any` says at next to no cost whether any package was ever enabled there, `is_changed` whether one was and
        is another one now.
        """
        self._is_enabled, self._is_changed, self._has_any = is_enabled, is_changed or _say_no, has_any
        self.generation += 1

    def has_any(self) -> bool:
        """Return whether any package was ever enabled; without it no metadata of packages need be read."""
        return self._has_any()

    def is_enabled(self, package: InstalledPackage) -> bool:
        """Return whether the person has enabled a package as it is installed now."""
        return self._is_enabled(package)

    def is_changed(self, package: InstalledPackage) -> bool:
        """Return whether a package was enabled and is another one now: nothing of it runs."""
        return self._is_changed(package)


def _say_no(_package: InstalledPackage) -> bool:
    return False


PACKAGES = PackageGate()


def normalize_package_name(name: str) -> str:
    """Return the name of a distribution in the one form that its spellings share."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def list_packages() -> list[InstalledPackage]:
    """Return the installed packages that offer something to Hermes, by name. Imports nothing of them."""
    from importlib.metadata import Distribution

    found: dict[str, InstalledPackage] = {}
    for one in Distribution.discover():
        package = describe_package(one)
        if package is not None:
            found.setdefault(package.name, package)
    return [found[name] for name in sorted(found)]


def describe_package(distribution: "Distribution | None") -> InstalledPackage | None:
    """Return what a distribution offers to Hermes; None where that is nothing, or there is none."""
    if distribution is None:
        return None
    offers = [(GROUPS[one.group], one.name) for one in distribution.entry_points if one.group in GROUPS]
    if not offers:
        return None
    import hashlib

    record = distribution.read_text("RECORD") or distribution.read_text("entry_points.txt") or ""
    return InstalledPackage(
        name=normalize_package_name(distribution.metadata["Name"] or ""),
        version=distribution.version,
        digest=hashlib.sha256(record.encode()).hexdigest(),
        offers=tuple(sorted(offers)),
    )


def list_changed_packages() -> list[InstalledPackage]:
    """Return the installed packages that were enabled and are others now."""
    return [one for one in list_packages() if PACKAGES.is_changed(one)] if PACKAGES.has_any() else []


def list_builtin_names(package: types.ModuleType) -> tuple[str, ...]:
    """Return the names of the modules and packages in a folder of built-ins, sorted; names that begin with `_` are left
    out.
    """
    found = set()
    for folder in package.__path__:
        for entry in os.scandir(folder):
            stem, suffix = os.path.splitext(entry.name)
            if not stem.startswith(("_", ".")) and (suffix == ".py" or (entry.is_dir() and not suffix)):
                found.add(stem)
    return tuple(sorted(found))


def load_builtin(package: types.ModuleType, name: str) -> types.ModuleType:
    """Import one built-in by its file name."""
    return importlib.import_module(f"{package.__name__}.{name}")


def load_entry_point(kind: str, name: str) -> object | None:
    """Return the object that an installed distribution offers as `name` under the entry point group
    `hermes.<kind>`, or None. Raises ConfigError for one that the person has not enabled.
    """
    from importlib.metadata import entry_points

    refused = None
    for entry in entry_points(group=f"hermes.{kind}", name=name):
        package = describe_package(entry.dist)
        if package is not None and PACKAGES.is_enabled(package):
            loaded: object = entry.load()
            return loaded
        refused = refused or package
    if refused is not None:
        raise ConfigError(
            N_(
                "{name} is offered by the package {package} {version}, which is not enabled: nothing of it runs.",
                name=name,
                package=refused.name,
                version=refused.version,
            ),
            N_("If you trust it, `hermes plugins enable {package}` enables it.", package=refused.name),
        )
    return None


def load_enabled(kind: str) -> Iterator[tuple[InstalledPackage, str, Callable[[], object]]]:
    """Return what the enabled packages offer of a kind: the package, the name, and what imports it, which may raise
    anything.
    """
    if not PACKAGES.has_any():
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=f"hermes.{kind}"):
        package = describe_package(entry.dist)
        if package is not None and PACKAGES.is_enabled(package):
            yield package, entry.name, entry.load


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a short `did you mean` sentence for a mistyped name; empty when no name is near. Of equally near
    names the first is taken.
    """
    from hermes.util.nearest_names import list_nearest

    near = list_nearest(name, known)
    return N_("Did you mean {names}?", names=repr(near[0])) if near else ""
