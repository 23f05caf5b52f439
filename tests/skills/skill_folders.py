"""Skills for tests."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.skills.catalog import SkillCatalog, SkillRoots
from hermes.skills.skill_library import SkillLibrary
from hermes.store.store import Store
from hermes.util.clock import SystemClock


def text(name: str, *, body: str = "Do it.", description: str = "What it is for.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def put(folder: Path, name: str, content: str | bytes | None = None) -> Path:
    """A skill on disk; returns its folder."""
    made = folder / name
    made.mkdir(parents=True)
    raw = content if isinstance(content, bytes) else (content or text(name.rpartition("/")[2])).encode()
    (made / "SKILL.md").write_bytes(raw)
    return made


def catalogue(folder: Path, **more: object) -> SkillCatalog:
    """The skills in `folder/skills`, without those that come with Hermes."""
    roots = {"own": folder / "skills", "cache": folder / "cache", "built_in": str(folder / "built-in"), **more}
    return SkillCatalog(SkillRoots(**roots), dict(os.environ))  # type: ignore[arg-type]


@asynccontextmanager
async def skills_in(folder: Path, **more: object) -> AsyncIterator[SkillLibrary]:
    folder.mkdir(exist_ok=True)
    store = await Store.open(folder, SystemClock())
    try:
        yield SkillLibrary(catalogue(folder, **more), store, own=folder / "skills", lock=folder / "run/skills.lock")
    finally:
        await store.close()
