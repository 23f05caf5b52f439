"""Set up an account on a platform: what is asked for, how it is written down, and whether the platform takes it."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing

from msgspec import Struct

from hermes.admin.config import change_settings, locate_writable_home
from hermes.admin.home_services import HomeServices, open_home_services
from hermes.config.environment import merge_dotenv, set_variables
from hermes.gateway.accounts import AccountPlan, load_descriptor, plan_account
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError
from hermes.i18n.messages import N_
from hermes.sessions.http_client import create_client_session

_CONNECT_SECONDS = 20.0


class AskedOption(Struct, frozen=True):
    """An option of an account that the set-up asks for."""

    name: str
    example: str
    variable: str
    """The variable of `.env` that holds it where it is a secret; else empty."""
    is_known: bool
    """Whether that variable has a value already."""


class AccountCheck(Struct, frozen=True, kw_only=True):
    """What became of an attempt to connect an account."""

    own_name: str = ""
    problem: str = ""
    is_refused: bool = False
    """Whether the platform does not take the account as it is set up, for example for a wrong token."""


def list_asked_options(environ: Mapping[str, str], name: str) -> list[AskedOption]:
    """Return what the set-up asks for, for the account that bears its platform's name."""
    descriptor, known = load_descriptor(name), merge_dotenv(environ, locate_writable_home(environ).env_file)
    lines = (line.strip().partition(": ") for line in descriptor.example.splitlines())
    examples = {option: value for option, _, value in lines}
    found = []
    for option in descriptor.asked:
        variable = descriptor.variables.get(option, "") if option in descriptor.secrets else ""
        found.append(AskedOption(option, examples.get(option, ""), variable, bool(variable and known.get(variable))))
    return found


def save_account(environ: Mapping[str, str], name: str, answers: Mapping[str, str]) -> None:
    """Write down the options of an account: secrets into `.env`, and the rest into `config.yaml`.

    Raises UsageError, ConfigError.
    """
    home = locate_writable_home(environ)
    variables = {one.name: one.variable for one in list_asked_options(environ, name) if one.variable}
    secrets = {variables[option]: value for option, value in answers.items() if option in variables}
    if secrets:
        home.ensure_exists()
        set_variables(home.env_file, secrets)
    plain = {option: value for option, value in answers.items() if option not in variables}
    plain |= {option: f"${{{variable}}}" for option, variable in variables.items()}
    change_settings(home, {("platforms", name, option): value for option, value in plain.items()})


async def check_account(environ: Mapping[str, str], name: str) -> AccountCheck:
    """Connect an account for a moment, as the gateway does; what it learns at that is stored. No gateway may run.

    Raises ConfigError, StoreError.
    """
    async with open_home_services(environ) as services:
        whole = merge_dotenv(environ, services.home.env_file)
        plan = plan_account(name, services.settings.platforms.get(name, {}), whole)
        if plan is None:
            return AccountCheck(problem=N_("`platforms.{name}.enabled` switches it off.", name=name))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return AccountCheck(own_name=await _connect_once(plan, services))
        except PlatformRefusedError as error:
            return AccountCheck(problem=error.message, is_refused=True)
        except TimeoutError:
            return AccountCheck(problem=N_("it did not answer within {n} s", n=round(_CONNECT_SECONDS)))
        except (PlatformError, OSError) as error:
            return AccountCheck(problem=str(error))


async def _connect_once(plan: AccountPlan, services: HomeServices) -> str:
    """Connect an account until it is up, store what it says at that, and return the name under which it is found."""
    async with AsyncExitStack() as stack:
        http = create_client_session(services.environ, services.settings.model.ca_bundle)
        stack.push_async_callback(http.close)
        context = PlatformContext(
            name=plan.name,
            http=http,
            clock=services.clock,
            media=services.home.root / "media" / plan.name,
            cursors=await services.store.chats.get_cursors(plan.name),
            report=lambda _line: None,
        )
        platform = await plan.descriptor.open(plan.options, context)
        stack.push_async_callback(platform.close)
        async with aclosing(platform.receive()) as batches:
            await services.store.chats.record_batch(plan.name, await anext(batches))
        return platform.own_name
