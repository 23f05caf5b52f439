"""The door for programs (`hermes serve`): the API server alone, with an address of its own and, where no key is
configured, a key that is made for this run.
"""

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct

from hermes.client.objects import EVENT_SCHEMA_VERSION
from hermes.core.errors import ConfigError
from hermes.gateway.accounts import plan_account
from hermes.gateway.gateway import Gateway
from hermes.gateway.http.server import is_loopback
from hermes.gateway.platforms.api_server.adapter import ApiServerPlatform
from hermes.gateway.platforms.api_server.keys import ApiOptions
from hermes.i18n.messages import N_

API_PLATFORM = "api_server"
_LISTEN_SECONDS = 30.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104 - compared with, not listened on


class DoorAddress(Struct, frozen=True):
    """Where programs find the door. `key` is the one that was made for this run; None where keys are configured."""

    url: str
    key: str | None
    openapi: str
    event_schema: int = EVENT_SCHEMA_VERSION


class ProgramDoor:
    """The choice of accounts and options for `hermes serve`. An empty host and a port of None are those of the
    settings; `show_address` is called once, when the port is listening.
    """

    def __init__(self, host: str, port: int | None, show_address: Callable[[DoorAddress], None]) -> None:
        self._host = host
        self._port = port
        self._show_address = show_address
        self._fresh_key = secrets.token_urlsafe(32)
        self._has_keys = False

    def select_platforms(
        self, given: Mapping[str, Mapping[str, object]], environ: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, object]]:
        """Return the account of the API server alone, with the host, port and key that it has here. One that others
        reach gets no key: the server refuses to listen until one is configured.
        """
        name = next((one for one in given if _platform_of(one, given[one]) == API_PLATFORM), API_PLATFORM)
        account: dict[str, object] = {**given.get(name, {}), "enabled": True}
        if self._host:
            account["host"] = self._host
        if self._port is not None:
            account["port"] = str(self._port)  # a 0 would be taken for one that is not given
        with suppress(ConfigError):  # whoever opens the accounts says what is wrong
            plan = plan_account(name, account, environ)
            assert plan is not None and isinstance(plan.options, ApiOptions)
            self._has_keys = bool(plan.options.key or plan.options.keys)
            if not self._has_keys and is_loopback(plan.options.host):
                account["key"] = self._fresh_key
        return {name: account}

    async def announce_address(self, gateway: Gateway) -> None:
        """Show the address once the port is listening. Raises ConfigError where it cannot be listened on."""
        account = next(iter(gateway.accounts.values()), None)
        if account is None or not await account.wait_connected(_LISTEN_SECONDS):
            problem = account.last_problem if account is not None else next(iter(gateway.config_problems), "")
            raise ConfigError(problem or N_("The API server does not come up."))
        platform, options = account.platform, account.plan.options
        assert isinstance(platform, ApiServerPlatform) and isinstance(options, ApiOptions)
        host = _EVERYWHERE.get(options.host.strip("[]"), options.host)
        url = f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{platform.port}"
        self._show_address(DoorAddress(url, None if self._has_keys else self._fresh_key, f"{url}/openapi.json"))


def _platform_of(name: str, settings: Mapping[str, object]) -> object:
    return settings.get("platform") or name
