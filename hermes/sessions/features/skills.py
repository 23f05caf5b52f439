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


def skills_of(home: Home, settings: Settings, environ: Mapping[str, str], store: Store) -> Skills:
    """The skills of a home."""
    return skills_over(catalogue_of(home, settings, environ), home, store)


def skills_over(catalogue: Catalogue, home: Home, store: Store) -> Skills:
    """The skills of a catalogue of this home."""
    return Skills(catalogue, store, own=home.skills, lock=home.locks / "skills.lock")


def catalogue_of(home: Home, settings: Settings, environ: Mapping[str, str]) -> Catalogue:
    """What skills there are; needs no store."""
    return Catalogue(roots_of(home, settings), environ)


def roots_of(home: Home, settings: Settings) -> Roots:
    """Where the skills of a home are, and whom it trusts as of now. Raises ConfigError for a damaged trust file."""
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


async def brought(skills: Skills, inbound: Inbound) -> Sequence[ImagePart | TextPart]:
    """The skill that a message asks for by `/name`."""
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
