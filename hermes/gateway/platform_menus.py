"""The menus of commands that platforms show where `/` is typed: kept as the commands, skills and people are now."""

import hashlib
from collections.abc import Mapping

from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole, role_rights
from hermes.commands.context import PromptScope
from hermes.commands.named_prompts import list_named_prompts
from hermes.commands.registry import builtin_command_names
from hermes.core.chats import Batch, Place
from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.command_context import commands_for
from hermes.gateway.people import find_working_folder
from hermes.gateway.platform import MenuEntry, PlatformMenu
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import N_, tr
from hermes.sessions.app import App
from hermes.sessions.features.skills import allows_skills
from hermes.util.text import strip_control_characters, to_one_line

MENU_CURSOR = "menu"
"""The cursor of an account that holds a hash of the menu that its platform has."""
REFRESH_SECONDS = 60.0
MAX_ENTRIES = 100
_CONNECT_SECONDS = 30.0


class PlatformMenus:
    """Keeps the menus of all accounts. A menu that has not changed costs no call."""

    def __init__(self, app: App, accounts: Mapping[str, PlatformAccount], telemetry: Telemetry) -> None:
        self._app = app
        self._store = app.services.store
        self._accounts = accounts
        self._report = telemetry.report_line
        self._problems: dict[str, str] = {}
        """The problem that was reported last, by account."""

    async def refresh(self) -> None:
        """Set the menus that differ from what their platforms have. What goes wrong is reported, and tried again."""
        for account in list(self._accounts.values()):
            if not account.can.menu or not await account.wait_connected(_CONNECT_SECONDS):
                continue
            problem = ""
            try:
                await self._set_menu(account)
            except HermesError as error:
                problem = str(error)
            if problem and problem != self._problems.get(account.name):
                self._report(N_("The menu of commands could not be set: {why}", why=problem), account=account.name)
            self._problems[account.name] = problem

    async def _set_menu(self, account: PlatformAccount) -> None:
        menu = await self._build_menu(account)
        digest = hashlib.sha256(to_json((menu, await self._list_reached(account, menu)))).hexdigest()
        if (await self._store.chats.get_cursors(account.name)).get(MENU_CURSOR) == digest:
            return
        await account.platform.set_menu(menu)
        await self._store.chats.record_batch(account.name, Batch(cursors=((MENU_CURSOR, digest),)))

    async def _list_reached(self, account: PlatformAccount, menu: PlatformMenu) -> list[str]:
        """Return those with a menu of their own who have written: before that, a platform knows no chat of theirs."""
        heard = set(await self._store.chats.list_heard_lanes(account.name))
        return [one for one in sorted(menu.people) if Place(account.name, one).lane in heard]

    async def _build_menu(self, account: PlatformAccount) -> PlatformMenu:
        handles = await self._store.people.list_handles()
        roles = {one.id: one.role for one in await self._store.people.list_all()}
        linked = [one for one in handles if one.platform == account.name]
        settings = account.plan.settings
        owners = {*settings.owners, *(one.account for one in linked if one.person == OWNER_ID)}
        admins = {*settings.admins, *(one.account for one in linked if roles.get(one.person) == PersonRole.ADMIN)}
        people = {one: await self._list_entries(account, PersonRole.ADMIN) for one in sorted(admins - owners)}
        full = await self._list_entries(account, PersonRole.OWNER)
        return PlatformMenu(
            everybody=await self._list_entries(account, PersonRole.USER),
            everything=full,
            people={**people, **dict.fromkeys(sorted(owners), full)},
        )

    async def _list_entries(self, account: PlatformAccount, role: PersonRole) -> tuple[MenuEntry, ...]:
        person, services = PersonIdentity(OWNER_ID, role), self._app.services
        limit = role_rights(services.settings.gateway, role).toolsets
        folder = find_working_folder(self._app, account.plan.settings, person)
        scope = PromptScope(
            folder=folder, taken=builtin_command_names(), skills=allows_skills(limit), own=person.can_administer
        )
        entries = [MenuEntry(one.name, tr(one.about)) for one in commands_for(role).ranked]
        prompts = await list_named_prompts(self._app, scope)
        entries += [MenuEntry(one.name, one.about) for one in prompts if ":" not in one.name]
        return tuple(MenuEntry(one.name, _shorten(one.about or one.name)) for one in entries[:MAX_ENTRIES])


def _shorten(text: str) -> str:
    return to_one_line(strip_control_characters(text), 100)
