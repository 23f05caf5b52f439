"""One request to a Home Assistant: its address and token from the environment or `.env`, answers bounded."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.tools.session import NO_WEB, ToolContext, WebAccess
from hermes.web.fetch import FetchedPage, FetchLimits, find_host
from hermes.web.templates import redact_key

TOKEN_VARIABLE, ADDRESS_VARIABLE = "HASS_TOKEN", "HASS_URL"
DEFAULT_ADDRESS = "http://homeassistant.local:8123"
_LIMITS = FetchLimits(seconds=30.0, connect=5.0, bytes=20_000_000)
_MAX_SAID = 300
T = TypeVar("T")


class HomeEntity(Struct, frozen=True):
    """The state of an entity as Home Assistant gives it."""

    entity_id: str
    state: str
    attributes: Mapping[str, object] = {}
    last_changed: str = ""

    @property
    def name(self) -> str:
        """The name that people see; empty where it has none."""
        found = self.attributes.get("friendly_name")
        return " ".join(found.split()) if isinstance(found, str) else ""


class ServiceField(Struct, frozen=True):
    """A field of a service's data."""

    description: str = ""
    required: bool = False


class HomeService(Struct, frozen=True):
    """A service of a domain."""

    name: str = ""
    description: str = ""
    fields: Mapping[str, ServiceField] = {}


class ServiceDomain(Struct, frozen=True):
    """The services of a domain by their names."""

    domain: str
    services: Mapping[str, HomeService] = {}


class ServiceOutcome(Struct, frozen=True):
    """What a call of a service came to: the states that changed, and its response where it gives one."""

    changed_states: tuple[HomeEntity, ...] = ()
    service_response: object = None


class HomeAssistant:
    """The server of a person's home. All failures are `ToolError`s; the token is in none of them."""

    def __init__(self, web: WebAccess) -> None:
        self._web = web
        self._token = web.environ.get(TOKEN_VARIABLE, "").strip()
        self._base = (web.environ.get(ADDRESS_VARIABLE, "").strip() or DEFAULT_ADDRESS).rstrip("/")

    async def list_states(self) -> list[HomeEntity]:
        """Return the state of every entity."""
        return self._decode(await self._request("GET", "/api/states"), list[HomeEntity])

    async def read_state(self, entity_id: str) -> HomeEntity:
        """Return the state of an entity."""
        page = await self._request("GET", f"/api/states/{entity_id}", missing=f"There is no entity {entity_id}.")
        return self._decode(page, HomeEntity)

    async def list_area(self, area: str) -> list[str]:
        """Return the ids of an area's entities; empty for an area that there is not."""
        body = {"template": "{{ area_entities(area) | to_json }}", "variables": {"area": area}}
        refused = "Areas are told to administrators alone, and the token is of another user. Ask without an area."
        return self._decode(await self._request("POST", "/api/template", body, unauthorized=refused), list[str])

    async def list_services(self) -> list[ServiceDomain]:
        """Return the services of every domain."""
        return self._decode(await self._request("GET", "/api/services"), list[ServiceDomain])

    async def call_service(self, domain: str, service: str, data: Mapping[str, object]) -> ServiceOutcome:
        """Call a service, once. One that gives nothing but a response refuses a call that does not ask for it."""
        path = f"/api/services/{domain}/{service}"
        page = await self._request("POST", path, data, may_refuse=True)
        if page.status == 400 and b"return_response" in page.body:
            page = await self._request("POST", f"{path}?{urlencode({'return_response': ''})}", data, may_refuse=True)
        if page.status == 400:
            raise ToolError(
                f"Home Assistant refuses {domain}.{service}: {_read_message(page)}. Does ha_list_services know it, and "
                "its data?"
            )
        if page.body.lstrip()[:1] == b"[":
            return ServiceOutcome(tuple(self._decode(page, list[HomeEntity])))
        return self._decode(page, ServiceOutcome)

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        missing: str = "",
        unauthorized: str = "",
        may_refuse: bool = False,
    ) -> FetchedPage:
        """Return the answer. With `may_refuse` a 400 is one, too."""
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        raw = to_json(body) if body is not None else b""
        try:
            # It needs no leave: the person has set it up, and it stands in their own network.
            async with self._web.make_fetcher(find_host(self._base), limits=_LIMITS) as fetcher:
                page = await fetcher.send_request(method, f"{self._base}{path}", headers=headers, body=raw)
        except ToolError as error:
            said = redact_key(str(error), self._token)
            raise ToolError(f"Home Assistant: {said} HASS_URL, in the environment or .env, says where it is.") from None
        if page.status in (200, 201) or (may_refuse and page.status == 400):
            return page
        if page.status == 401:
            raise ToolError(unauthorized or f"Home Assistant does not accept the token in {TOKEN_VARIABLE}.")
        if page.status == 404 and missing:
            raise ToolError(missing)
        said = redact_key(_read_message(page), self._token)
        raise ToolError(f"Home Assistant answered with status {page.status}: {said}.")

    def _decode(self, page: FetchedPage, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(page.body, type=kind)
        except (msgspec.MsgspecError, RecursionError):
            raise ToolError(f"{self._base} did not answer as Home Assistant does.") from None


def open_home(ctx: ToolContext) -> HomeAssistant:
    """Return the server that the environment names. Raises ToolError where there is no way to it."""
    if ctx.web is None:
        raise ToolError(NO_WEB)
    return HomeAssistant(ctx.web)


def _read_message(page: FetchedPage) -> str:
    """Return what the server says of a refusal, on one line."""
    try:
        answer: object = msgspec.json.decode(page.body)
    except (msgspec.DecodeError, RecursionError):
        answer = None
    said = answer.get("message") if isinstance(answer, dict) else page.body.decode("utf-8", "replace")
    return " ".join(str(said).split())[:_MAX_SAID].rstrip(".")
