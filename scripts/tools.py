#!/usr/bin/env python3
"""Write hermes/tools/listing.json: what the model is shown of the tools that come with Hermes, read from their files.

python scripts/tools.py            prints it
python scripts/tools.py --write    writes it
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from hermes.cron.tool import CronToolDeps, make_cronjob_tool  # noqa: E402 - the tree that this file stands in
from hermes.memory.journal import MemoryJournal  # noqa: E402
from hermes.memory.session_search import build_session_search_tool  # noqa: E402
from hermes.memory.tool import build_memory_tool  # noqa: E402
from hermes.sessions.features.delegate_tool import build_delegate_tool  # noqa: E402
from hermes.sessions.port import Delegator  # noqa: E402
from hermes.skills.skill_library import SkillLibrary  # noqa: E402
from hermes.skills.tool import build_skill_tools  # noqa: E402
from hermes.store.store import Store  # noqa: E402
from hermes.tools.registry import ToolListing, ToolRegistry  # noqa: E402
from hermes.tools.tool import Tool  # noqa: E402

LISTING = ROOT / "hermes" / "tools" / "listing.json"


def iter_tools() -> Iterator[Tool]:
    """Yield the tools of the folder of built-in ones, and those that are bound to a session."""
    registry = ToolRegistry()
    for name in registry.list_builtin_files():
        yield from registry.load_file(name)

    async def ignore_changes(_changes: object) -> None:
        """Nothing is written here."""

    unused: object = None  # the builders only keep what they are given
    yield from build_skill_tools(cast(SkillLibrary, unused), writes=True, automatic=False)
    yield make_cronjob_tool(cast(CronToolDeps, unused))
    yield build_session_search_tool(cast(Store, unused))
    yield build_memory_tool(
        cast(MemoryJournal, unused), approval=False, notify_user=lambda _: None, on_written=ignore_changes
    )
    yield build_delegate_tool(cast(Delegator, unused), orchestrates=True)


def make_listing() -> bytes:
    """Return the listing, a line for each tool."""
    rows = [
        ToolListing(
            name=tool.name,
            toolset=tool.toolset,
            description=tool.description,
            parameters=msgspec.Raw(tool.parameters.schema()),
            deferred=tool.deferred,
            brief=tool.brief,
            housekeeping=tool.housekeeping,
            requirements=tool.requirements,
            availability=tool.availability,
        )
        for tool in sorted(iter_tools(), key=lambda tool: tool.name)
    ]
    return b"[\n" + b",\n".join(map(msgspec.json.encode, rows)) + b"\n]\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        LISTING.write_bytes(make_listing())
    else:
        sys.stdout.buffer.write(make_listing())
