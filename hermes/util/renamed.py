"""Names and modules that plug-ins import and that were renamed: the old ones answer for one release, with a warning.

A module that plug-ins import ends with `__getattr__ = renamed_names(__name__)`; modules that are gone are found by
`answer_renamed_modules`. Both go in the release after the next one.
"""

import importlib
import importlib.machinery
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "hermes.context.engine": {
            "Change": "MessageReplacement", "DEFAULT": "DEFAULT_ENGINE", "Kept": "NoCompaction", "Load": "ContextLoad",
            "Occasion": "CompactionRequest", "Setup": "EngineSetup", "Trigger": "CompactionTrigger",
            "UNKNOWN_WINDOW": "ASSUMED_WINDOW", "engine_names": "list_engine_names",
        },
        "hermes.core.chats": {
            "Arrival": "InboundEvent", "Deed": "AuditEntry", "Handle": "PlatformHandle", "Owed": "OutboxItem",
            "StoredArrival": "StoredInboundEvent", "Unanswered": "UnansweredEvents",
            "WaitingCode": "PendingPairingCode",
        },
        "hermes.gateway.platform": {
            "Fault": "SendFault", "Options": "PlatformOptions", "Surroundings": "PlatformContext",
        },
        "hermes.memory.provider": {
            "Recalled": "RecalledText", "Setup": "MemoryProviderSetup", "open_provider": "open_memory_provider",
            "provider_names": "list_memory_providers",
        },
        "hermes.providers.wire": {"Decoder": "AnswerDecoder", "Wire": "WireFormat", "matches": "matches_model"},
        "hermes.tools.session": {
            "Catalogue": "DeferredTools", "Found": "FoundTool", "Limits": "ToolLimits", "Opening": "OneTimePaths",
            "OneTimeWrites": "OneTimePaths",
        },
        "hermes.tools.tool": {"SUMMARY": "MAX_SUMMARY", "Traits": "ToolTraits"},
    }
)  # fmt: skip
"""For each module, its old names and today's."""
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "hermes.testing.chats.fake": "hermes.testing.fake_platform",
        "hermes.testing.chats.listener": "hermes.testing.web_server",
        "hermes.testing.chats.rig": "hermes.testing.platform_rig",
        "hermes.testing.desk": "hermes.testing.command_context",
        "hermes.testing.legal": "hermes.testing.request_checks",
        "hermes.testing.line": "hermes.testing.http_connection",
        "hermes.testing.obey": "hermes.testing.obedient_model",
        "hermes.testing.plan": "hermes.testing.answer_plan",
    }
)
"""Modules that are gone, with those that hold what they held."""
_PACKAGES = frozenset({"hermes.testing.chats"})
"""Packages that are gone and lead to such modules."""


def renamed_names(module: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: an old name gives today's object and a `DeprecationWarning`."""

    def get_renamed(name: str) -> object:
        today = _NAMES[module].get(name)
        if today is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is {today} now; the old name goes", DeprecationWarning, stacklevel=2)
        value: object = getattr(sys.modules[module], today)
        return value

    return get_renamed


def answer_renamed_modules() -> None:
    """Let imports of modules that are gone give those that took their place. It may be called any number of times."""
    if not any(isinstance(one, _RenamedModuleFinder) for one in sys.meta_path):
        sys.meta_path.append(_RenamedModuleFinder())


class _RenamedModuleFinder:
    """Finds modules under their old names. It stands last, so that only what nobody else finds comes to it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for what is gone and has a successor; None for everything else."""
        if fullname not in _MODULES and fullname not in _PACKAGES:
            return None
        loader: Loader = cast("Loader", self)
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=fullname in _PACKAGES)

    def create_module(self, _: importlib.machinery.ModuleSpec) -> None:
        """Let Python make the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Put today's module in the place of the old one."""
        if module.__name__ in _PACKAGES:
            return
        today = _MODULES[module.__name__]
        warnings.warn(f"{module.__name__} is {today} now; the old path goes", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(today)
