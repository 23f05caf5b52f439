"""What enabled packages add to a session: tools and hooks. Their code is trusted, and runs in this process."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from hermes.hooks.hook import HookSource
from hermes.hooks.missing_hooks import MissingHookSource, explain_change
from hermes.i18n.messages import N_
from hermes.plugins import InstalledPackage, list_changed_packages, load_enabled
from hermes.sessions.session_tools import OWNED_TOOLS
from hermes.tools.registry import ToolRegistry
from hermes.tools.tool import Tool
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_MISSED_EVENTS = ("pre_tool_call", "transform_tool_result")
"""Where hooks of a package that is not imported are missed: nobody can ask it for its events."""
T = TypeVar("T")


class PackageOffers(Struct, frozen=True):
    """The tools and hooks of enabled packages, and lines for the person about what could not be used."""

    tools: tuple[Tool, ...] = ()
    hooks: tuple[HookSource, ...] = ()
    problems: tuple[str, ...] = ()


def load_package_offers(taken: Callable[[str], bool]) -> PackageOffers:
    """Load the tools and hooks of the packages that the person has enabled.

    A tool whose name is `taken` is left out, and so is what cannot be imported or is of another kind: that is said.
    """
    problems: list[str] = []
    tools: dict[str, Tool] = {}
    for one in _load_kind("tools", Tool, problems):
        if one.name in tools or taken(one.name):
            said = N_("The tool {name} of a package is left out: there is one of that name.", name=one.name)
            problems.append(said)
        else:
            tools[one.name] = one
    changed = list_changed_packages()
    hooks = (*_load_hooks(problems), *_list_missing_hooks(changed))
    problems += [
        N_(
            "The package {name} has changed since it was enabled, so nothing of it runs. `hermes plugins enable {name}`"
            " shows and enables it again.",
            name=one.name,
        )
        for one in changed
    ]
    return PackageOffers(tuple(tools.values()), hooks, tuple(problems))


def load_new_tools() -> PackageOffers:
    """Load what enabled packages add to the tools of every session, for whoever has no session."""
    taken = {name for names in OWNED_TOOLS.values() for name in names}
    registry = ToolRegistry()
    return load_package_offers(lambda name: name in taken or registry.find_known(name) is not None)


def _load_kind(kind: str, wanted: type[T], problems: list[str]) -> Iterable[T]:
    """Load the objects of a kind, single ones and lists of them."""
    for package, name, load in load_enabled(kind):
        loaded = _load(package, name, load, problems)
        found: Sequence[object] = loaded if isinstance(loaded, list | tuple) else () if loaded is None else (loaded,)
        for one in found:
            if isinstance(one, wanted):
                yield one
            else:
                problems.append(_describe_problem(package, name, N_("it is no {kind}", kind=wanted.__name__)))


def _load_hooks(problems: list[str]) -> Iterable[HookSource]:
    """Load hooks: each entry point is a function without arguments that returns a source."""
    for package, name, load in load_enabled("hooks"):
        make = _load(package, name, load, problems)
        made = _load(package, name, make, problems) if callable(make) else None
        if made is not None and callable(getattr(made, "run_hook", None)) and callable(getattr(made, "handles", None)):
            yield made  # type: ignore[misc]  # its form was just looked at
            continue
        if make is not None:
            problems.append(_describe_problem(package, name, N_("it makes no source of hooks")))
        reason = N_("it cannot be loaded: `hermes plugins disable {name}` goes on without it", name=package.name)
        yield MissingHookSource(package.name, _MISSED_EVENTS, reason)


def _list_missing_hooks(changed: Iterable[InstalledPackage]) -> Iterable[HookSource]:
    """Return what stands for the hooks of packages that are others now than those that were enabled."""
    for package in changed:
        if any(kind == "hooks" for kind, _ in package.offers):
            yield MissingHookSource(package.name, _MISSED_EVENTS, explain_change(package.name))


def _load(package: InstalledPackage, name: str, load: Callable[[], object], problems: list[str]) -> object | None:
    try:
        return load()
    except Exception as error:  # noqa: BLE001 - somebody else's code: said, and gone on without
        _LOG.warning("%s of the package %s cannot be loaded", name, package.name, exc_info=True)
        problems.append(_describe_problem(package, name, f"{type(error).__name__}: {to_one_line(str(error), 200)}"))
        return None


def _describe_problem(package: InstalledPackage, name: str, reason: str) -> str:
    return N_(
        "{name} of the package {package} cannot be used: {reason}.", name=name, package=package.name, reason=reason
    )
