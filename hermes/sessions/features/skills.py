"""The skills of a session: their catalog, and what `/name` adds to a message."""

import asyncio
from collections.abc import Mapping, Sequence

from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.config.trusted import trusted_folders
from hermes.core.errors import HermesError
from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.mailbox import Inbound
from hermes.skills.catalogue import Catalogue, Roots
from hermes.skills.skills import Skills
from hermes.store.store import Store


def build_skills(home: Home, settings: Settings, environ: Mapping[str, str], store: Store) -> Skills:
    """Build the skills of a home."""
    return skills_from_catalogue(build_catalogue(home, settings, environ), home, store)


def skills_from_catalogue(catalogue: Catalogue, home: Home, store: Store) -> Skills:
    """Build the skills of a catalogue of this home."""
    return Skills(catalogue, store, own=home.skills, lock=home.locks / "skills.lock")


def build_catalogue(home: Home, settings: Settings, environ: Mapping[str, str]) -> Catalogue:
    """Build the catalogue of skills; needs no store."""
    return Catalogue(skill_roots(home, settings), environ)


def skill_roots(home: Home, settings: Settings) -> Roots:
    """Return the folders of a home's skills, and the folders it trusts now.

    Raises ConfigError for a damaged trust file.
    """
    chosen = settings.skills
    return Roots(
        own=home.skills,
        cache=home.cache,
        external=chosen.external_dirs,
        trusted=tuple(trusted_folders(home.trust_file)),
        disabled=chosen.disabled,
    )


async def told(skills: Skills, names: Sequence[str]) -> list[TextPart]:
    """Skills as parts of a message, and noted as used. Raises NotFoundError for a name that is no skill's."""
    from hermes.skills.command import skill_part

    found = []
    for name in names:
        found.append(skill_part(await skills.find(name), await skills.body(name)))
        await skills.used(name)
    return found


async def attach_requested_skill(skills: Skills, inbound: Inbound) -> Sequence[ImagePart | TextPart]:
    """Return the skill that a message asks for by `/name`."""
    if not inbound.text.startswith("/"):
        return ()
    from hermes.skills.command import named, skill_part

    name = named(inbound.text)
    known = {skill.name for skill in await asyncio.to_thread(skills.catalogue.all)} if name else set()
    if name not in known:
        return ()
    try:
        skill = await skills.find(name)
        body = await skills.body(name)
    except HermesError as error:
        return (TextPart(f"[The skill was not brought along: {error}]", PROGRAM),)
    await skills.used(name)
    return (skill_part(skill, body),)
