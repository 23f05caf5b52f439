"""The contract of an API format (a "wire"), the records of providers and endpoints, and the formats by their names."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Protocol, TypeVar

from msgspec import Struct

from hermes.core.errors import ConfigError, HermesError
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.core.protocols import HttpTransport
from hermes.core.secret import KeyHolder
from hermes.core.stream import Answer, StreamDelta
from hermes.core.usage import Price
from hermes.i18n.messages import N_
from hermes.util.renamed import renamed_names


class Quirks(KeyHolder, frozen=True, kw_only=True):
    """How a vendor's wire differs from its family, as data. The defaults are the family's own ways."""

    reasoning_replay: bool = False
    """Whether reasoning of earlier answers is sent back to the model that wrote it: always or never, as a rule."""
    reasoning_field: str = "reasoning_content"
    """The field of a chat message that carries reasoning, where the wire has no shape of its own for it."""
    tool_choice_none: bool = True
    """Whether `tool_choice: none` leaves the prompt's cached prefix as it is (else the call is only asked in words)."""
    max_tokens_field: str = "max_tokens"
    """The request field that limits generated tokens."""
    default_max_tokens: int | None = None
    """Sent when the epoch names no limit, for wires that demand one."""
    stream_usage: bool = True
    """Whether `stream_options.include_usage` may be sent."""
    native_prefix: str = ""
    """A vendor prefix such as `anthropic/` that is stripped from model names here."""
    vendor_names: bool = False
    """Whether model names here are `vendor/model` and stand as they are given."""
    reasoning_required: bool = False
    """Whether every assistant message must carry `reasoning_field`; one space stands where there is none to replay."""
    prefill: bool = False
    """Without effect, for records of packages that still name it: no request ends with an assistant message."""
    think_tags: bool = False
    """Whether servers here may leave thoughts in content whose opening tag stands in the model's template."""
    strict_roles: bool = False
    """Whether requests keep the order of roles that chat templates and validators demand (`Rewrite.MERGED_ROLES`)."""
    effort: str = "reasoning_effort"
    """How a chat request names its reasoning effort: `reasoning_effort`, `reasoning` (an object), or empty: not."""
    unreasoning_models: tuple[str, ...] = ()
    """Models (by name, or by a prefix that ends in `*`) that refuse any option about reasoning."""
    budget_models: tuple[str, ...] = ()
    """Models that take a reasoning effort as a budget of tokens (`anthropic_messages`), matched the same way."""
    call_id_limit: int = 64
    """The longest id of a tool call that is accepted; others are replaced by a hash of themselves."""
    call_id_exact: bool = False
    """Whether ids must be exactly `call_id_limit` letters and digits."""
    extra_body: bytes = b""
    """Members added to every request, as the inside of a JSON object."""
    extra_headers: Mapping[str, str] = {}
    """Header fields added to every request."""
    beta_header: str = "anthropic-beta"
    """The header field that names features which not every account has; where it is refused, it is left out."""
    organisation_header: str = ""
    """The header field that names the account of a key, where the provider wants it; empty: none."""
    dropped_members: tuple[str, ...] = ()
    """Members of a request that are refused here and therefore left out."""
    cache_marks: tuple[str, ...] = ()
    """Models (by name, or by a prefix that ends in `*`) whose prompts are cached up to marks (`cache_control`).
    On the chat wire their texts are sent as lists of blocks, marked or not."""
    probe: str = ""
    """How the server tells a context length: `models`, `props` (llama.cpp), `show` (Ollama), `any` (which
    of them is tried out), or empty: it does not."""


def matches_model(model: str, patterns: Iterable[str]) -> bool:
    """Return whether the model's name is in a record's list: literally, or by a prefix that ends in `*`."""
    return any(model == item or (item.endswith("*") and model.startswith(item[:-1])) for item in patterns)


T = TypeVar("T")


def find_by_name(facts: Mapping[str, T], model: str) -> T | None:
    """Return what a record says of a model: under its name, else under the longest prefix; None for nothing."""
    if model in facts:
        return facts[model]
    prefixes = [name for name in facts if name.endswith("*") and model.startswith(name[:-1])]
    return facts[max(prefixes, key=len)] if prefixes else None


class ProviderRecord(Struct, frozen=True, kw_only=True):
    """One provider: its address, its authentication, and its API format."""

    name: str
    title: str
    base_url: str
    wire: str = "chat_completions"
    """The API format; empty where the address decides, as for providers that the settings name."""
    wires: Mapping[str, str] = {}
    """The API format of models that have another one, by name or by a prefix that ends in `*`."""
    cloud: str = ""
    """The module of `providers/clouds` that knows the addresses here and signs requests."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key, in order of preference; empty when no key is needed."""
    credential_variables: tuple[str, ...] = ()
    """Variables with which requests can be signed where there is no key."""
    address_keys: tuple[str, ...] = ()
    """Variables whose key belongs to the address in `base_url_variable` and is sent to no other."""
    key_required: bool = True
    sign_in: str = ""
    """What `hermes auth login` calls the sign-in that is the only way in; empty: there are keys."""
    base_url_variable: str = ""
    """Environment variable that replaces `base_url`, where people are used to one."""
    hosts: tuple[str, ...] = ()
    """Further hosts of this provider beside the one in `base_url`."""
    quirks: Quirks = Quirks()
    context_lengths: Mapping[str, int] = {}
    """Tokens by model name or by a prefix that ends in `*`; what is not here is asked of the provider or the config."""
    prices: Mapping[str, Price] = {}
    """List prices, by model or by prefix in the same way; a model that is not here has no known price."""
    pictures: Mapping[str, bool] = {}
    """Whether models take pictures, by model or by prefix in the same way; of others it is unknown."""
    default_model: str = ""
    tools: bool = True
    """Whether the models here can be given tools at all."""
    temperature: float | None = None
    """Used when neither the settings nor the caller name one."""
    max_tokens: int | None = None
    """The most tokens of one answer when neither the settings nor the caller name a limit."""
    prompt: str = ""
    """A system prompt that stands in the place of the built one, for models that a long one confuses."""
    tested: bool = False
    """Whether this record has been used against the provider's real servers or its official software."""
    notes: str = ""


class UnsignedRequest(KeyHolder, frozen=True):
    """A request before it is signed, with the header fields of its API format."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


class RequestSigner(Protocol):
    """Signs requests to a cloud. Its `repr` shows no key."""

    has_credentials: bool
    """Whether it can sign without a key of its provider."""

    async def sign_request(self, request: UnsignedRequest, key: str, transport: HttpTransport) -> dict[str, str]:
        """Return the header fields to send; `key` is the provider's key, where there is one.

        Raises `TransportError` when the credentials cannot be used, or cannot be renewed.
        """
        ...

    def list_secrets(self) -> tuple[str, ...]:
        """Return what no error may show."""
        ...


class Cloud(Protocol):
    """Knows the addresses of a cloud's models, and where its credentials are."""

    def resolve_address(self, base_url: str, model: str, wire: str, environ: Mapping[str, str]) -> str:
        """Return the address; `base_url` is what was named, or empty. Raises ConfigError for what is missing."""
        ...

    def create_signer(self, base_url: str, environ: Mapping[str, str]) -> RequestSigner:
        """Return what signs requests to the address. Raises ConfigError for credentials that cannot be read."""
        ...


class Endpoint(KeyHolder, frozen=True, kw_only=True):
    """A record resolved for use: the model, its address and its key. `context_length` is None when it is unknown."""

    record: ProviderRecord
    model: str
    base_url: str
    api_key: str
    wire: str
    context_length: int | None = None
    organisation: str = ""
    """The account that the key belongs to, where it is known."""
    key_given: bool = False
    """Whether the key was named together with the model, so that no other key of the provider replaces it."""
    cache_ttl: str = ""
    """How long marked prompts are kept: `5m` or `1h`; empty where no marks are sent."""
    signer: RequestSigner | None = None
    """Signs the requests, where the provider is a cloud."""
    reasoning_replay: str = ""
    """The setting that `record` was changed by, for the epoch's frame; empty: the record stands as it is."""


def takes_effort(endpoint: Endpoint) -> bool:
    """Return whether a reasoning effort can be sent to this model."""
    quirks = endpoint.record.quirks
    named = endpoint.wire != "chat_completions" or bool(quirks.effort)
    return named and not matches_model(endpoint.model, quirks.unreasoning_models)


def takes_images(endpoint: Endpoint) -> bool | None:
    """Return whether this model takes pictures; None where that is unknown."""
    return find_by_name(endpoint.record.pictures, endpoint.model)


class ServerEvent(Struct, frozen=True):
    """One server-sent event. `id` is its own; the standard's last id of those before it is not carried over."""

    event: str
    data: str
    id: str = ""


class WireError(HermesError):
    """A provider reported an error inside a stream, or sent what its API format does not know.

    `code` and `type` are the provider's own words for it, `status` the HTTP status it names (0: none), `error` the
    whole object that it sent, where it sent one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        error_type: str = "",
        status: int = 0,
        error: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.type = error_type
        self.status = status
        self.error = error


class AnswerDecoder(Protocol):
    """Turns one answer's events into deltas and, at the end, into the whole answer. Used for one answer only."""

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next event; a whole answer that did not come as a stream is one event too.

        Raises `WireError` when the provider reports an error inside the stream.
        """
        ...

    @property
    def finished(self) -> bool:
        """Return whether the provider said that the answer is whole; a stream that ends before this was cut."""
        ...

    @property
    def ended(self) -> bool:
        """Return whether nothing more will come; after `finished` a few streams still bring usage."""
        ...

    @property
    def pieces(self) -> int:
        """Return how many pieces of calls have come; `feed` gives no delta for them, and a long call is no silence."""
        ...

    def build_answer(self) -> Answer:
        """Return what has arrived; when not finished: without any call whose arguments are still incomplete, finish
        `cut`.
        """
        ...


class WireFormat(Protocol):
    """A family of vendor APIs. Encoding is pure: the same values give the same bytes, today and after a restart."""

    name: str
    version: int
    path: str

    def build_headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Return the header fields of a request, authentication included."""
        ...

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """Encode the message as JSON array elements joined by commas (none: empty), whatever stands beside it."""
        ...

    def find_mark_offset(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Return where a cache mark can be put into the encoded message, as an offset; -1 when it cannot carry one."""
        ...

    def encode_body(
        self,
        frame: EpochFrame,
        messages: bytes | bytearray,
        endpoint: Endpoint,
        *,
        final: bool,
        places: Sequence[int] = (),
    ) -> bytes:
        """Encode a whole request.

        `messages` is the joined elements; `final` asks for an answer without further calls. `places` are
        offsets in `messages`, rising, at which cache marks are put; the system prompt gets one by itself where
        the endpoint wants marks.
        """

    def create_decoder(self, endpoint: Endpoint) -> AnswerDecoder:
        """Create a decoder for one answer."""
        ...


def build_url(base_url: str, path: str) -> str:
    """Return the address of a path below a base address, whose query stays at the end."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


async def build_request_headers(
    endpoint: Endpoint, transport: HttpTransport, method: str, url: str, body: bytes = b""
) -> dict[str, str]:
    """Return the header fields of a request, signed where the endpoint wants it. Raises `TransportError`."""
    headers = load_wire(endpoint.wire).build_headers(endpoint)
    if endpoint.signer is None:
        return headers
    return await endpoint.signer.sign_request(UnsignedRequest(method, url, headers, body), endpoint.api_key, transport)


def load_cloud(name: str) -> Cloud:
    """Return the cloud of that name."""
    found: Cloud = import_module(f"hermes.providers.clouds.{name}").CLOUD
    return found


__getattr__ = renamed_names(__name__)


_MODULES = {
    "chat_completions": "chat_completions",
    "responses": "responses",
    "anthropic_messages": "anthropic_messages",
}
_ALIASES = {
    "codex_responses": "responses",
    "openai_responses": "responses",
    "chat": "chat_completions",
    "openai": "chat_completions",
    "anthropic": "anthropic_messages",
}


def resolve_wire_name(name: str) -> str:
    """Return the format's own name for a name or an alias. Raises `ConfigError` for one that does not exist."""
    wanted = name.strip().lower()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in _MODULES:
        raise ConfigError(
            N_("There is no API mode `{name}`.", name=name),
            N_("Set `model.api_mode` to one of: {MODULES} (or codex_responses).", MODULES=", ".join(_MODULES)),
        )
    return wanted


def load_wire(name: str) -> WireFormat:
    """Return the format of that name or alias."""
    found: WireFormat = import_module(f"hermes.providers.{_MODULES[resolve_wire_name(name)]}").WIRE
    return found
