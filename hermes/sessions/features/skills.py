"""The skills of a session: their catalog, and what `/name` adds to a message."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.config.trusted_folders import read_trusted_folders
from hermes.core.errors import HermesError
from hermes.core.messages import PROGRAM, ImagePart, TextPart
from hermes.runtime.mailbox import InboundMessage
from hermes.skills.catalog import SkillCatalog, SkillRoots
from hermes.skills.skill_library import SkillLibrary
from hermes.store.store import Store
from hermes.tools.toolsets import ALL_TOOLSETS, TOOLSETS, resolve_toolset


def build_skills(home: HermesHome, settings: Settings, environ: Mapping[str, str], store: Store) -> SkillLibrary:
    """Build the skills of a home."""
    return skills_from_catalogue(build_catalogue(home, settings, environ), home, store)


def skills_from_catalogue(catalogue: SkillCatalog, home: HermesHome, store: Store) -> SkillLibrary:
    """Build the skills of a catalogue of this home."""
    return SkillLibrary(catalogue, store, own=home.skills, lock=home.locks / "skills.lock")


def build_catalogue(
    home: HermesHome,
    settings: Settings,
    environ: Mapping[str, str],
    folder: str = "",
    trusted_folders: Sequence[str] = (),
) -> SkillCatalog:
    """Build the catalogue of skills; needs no store. With a folder the project's skills there are among them."""
    return SkillCatalog(skill_roots(home, settings, environ, folder, trusted_folders), environ)


def skill_roots(
    home: HermesHome,
    settings: Settings,
    environ: Mapping[str, str],
    folder: str = "",
    trusted_folders: Sequence[str] = (),
) -> SkillRoots:
    """Return the folders of a home's skills, and the folders it trusts now. With a `folder` the skills that other
    agents keep in the project there are among them, where the person has agreed to that.

    Raises ConfigError for a damaged trust file.
    """
    chosen, foreign = settings.skills, list[str]()
    if os.path.lexists(home.consent_file):
        from hermes.config.other_agents import FileKind, list_agreed_places

        places = list_agreed_places(FileKind.SKILLS, home, environ, folder, trusted_folders)
        named = {os.path.realpath(os.path.expanduser(one)) for one in chosen.external_dirs}
        foreign += [place.path for place in places if os.path.realpath(place.path) not in named]
    return SkillRoots(
        own=home.skills,
        cache=home.cache,
        external=chosen.external_dirs,
        foreign=tuple(foreign),
        trusted=tuple(read_trusted_folders(home.trust_file)),
        disabled=chosen.disabled,
    )


def allows_skills(limit: Sequence[str] | None) -> bool:
    """Return whether a limit of tool sets leaves the skills."""
    known = (*TOOLSETS, *ALL_TOOLSETS)
    return limit is None or any("skill_view" in resolve_toolset(one) for one in limit if one in known)


async def load_skill_parts(skills: SkillLibrary, names: Sequence[str]) -> list[TextPart]:
    """Return skills as parts of a message, and record their use. Raises NotFoundError for an unknown name."""
    from hermes.skills.tool import build_skill_part

    found = []
    for name in names:
        found.append(build_skill_part(await skills.find_skill(name), await skills.read_instructions(name)))
        await skills.count_use(name)
    return found


async def attach_requested_skill(skills: SkillLibrary, inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
    """Return the skill that a message asks for by `/name`."""
    from hermes.skills.tool import build_skill_part, parse_skill_name

    name = parse_skill_name(inbound.text)
    known = {skill.name for skill in await asyncio.to_thread(skills.catalog.list_all)} if name else set()
    if name not in known:
        return ()
    try:
        skill = await skills.find_skill(name)
        body = await skills.read_instructions(name)
    except HermesError as error:
        return (TextPart(f"[The skill was not included: {error}]", PROGRAM),)
    await skills.count_use(name)
    return (build_skill_part(skill, body),)
