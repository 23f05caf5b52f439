"""Amazon Bedrock: the addresses that speak OpenAI's formats and Anthropic's, with a key of Bedrock or a signature.

Source: Amazon Bedrock User Guide, "APIs supported by Amazon Bedrock", "Responses API", "Inference using Anthropic
Messages API" and "API keys". OpenAI's formats are served at `bedrock-runtime`, Anthropic's with server-sent events at
`bedrock-mantle`.
"""

import configparser
import os
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from hermes.core.errors import ConfigError
from hermes.core.protocols import HttpTransport
from hermes.i18n.messages import N_
from hermes.providers.clouds.aws_signature import AwsCredentials, SigningScope, sign_request
from hermes.providers.clouds.variables import read_first, read_label
from hermes.providers.wire import UnsignedRequest

_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_BASE_URL_VARIABLES = ("AWS_BEDROCK_BASE_URL",)
_HOST = re.compile(r"(bedrock-(?:runtime|mantle))(?:-fips)?\.([\w-]+)\.", re.ASCII)
_MAX_FILE = 1 << 20


class BedrockCloud:
    """The regions of Amazon Bedrock."""

    def resolve_address(self, base_url: str, model: str, wire: str, environ: Mapping[str, str]) -> str:
        """Return the address that was named, else that of the region for the API format."""
        del model
        base = (base_url or read_first(environ, _BASE_URL_VARIABLES)).strip().rstrip("/")
        if base:
            return base
        region = read_label(environ, _REGION_VARIABLES)
        if not region:
            raise ConfigError(
                "Bedrock needs a region.",
                "Set AWS_REGION (such as us-east-1), or `model.base_url` for another address.",
            )
        if wire == "anthropic_messages":
            return f"https://bedrock-mantle.{region}.api.aws/anthropic"
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://bedrock-runtime.{region}.{suffix}/openai/v1"

    def create_signer(self, base_url: str, environ: Mapping[str, str]) -> "BedrockSigner":
        """Return what signs requests with the access key of the environment or of a profile, if there is one."""
        host = _HOST.match(urlsplit(base_url).hostname or "")
        region = host[2] if host else read_label(environ, _REGION_VARIABLES, "us-east-1")
        service = "bedrock-mantle" if host and host[1] == "bedrock-mantle" else "bedrock"
        return BedrockSigner(find_credentials(environ), SigningScope(region, service))


class BedrockSigner:
    """Sends a key of Bedrock as a bearer token, and signs requests where there is none."""

    def __init__(
        self, credentials: AwsCredentials | None, scope: SigningScope, clock: Callable[[], float] = time.time
    ) -> None:
        self.has_credentials = credentials is not None
        self._credentials = credentials
        self._scope = scope
        self._clock = clock

    async def sign_request(self, request: UnsignedRequest, key: str, transport: HttpTransport) -> dict[str, str]:
        """Return the fields with the key, or with a signature over the request. Never waits."""
        del transport
        fields = {name: value for name, value in request.headers.items() if name not in ("authorization", "x-api-key")}
        if key or self._credentials is None:
            return fields | ({"authorization": f"Bearer {key}"} if key else {})
        return sign_request(
            request.method,
            request.url,
            fields,
            request.body,
            credentials=self._credentials,
            scope=self._scope,
            at=self._clock(),
        )

    def list_secrets(self) -> tuple[str, ...]:
        """Return the secret of the access key, and its session's token."""
        held = self._credentials
        return tuple(one for one in (held.key, held.api_key) if one) if held is not None else ()


def find_credentials(environ: Mapping[str, str]) -> AwsCredentials | None:
    """Return the access key of the environment, else that of the profile; None without one.

    Only keys that are written down are read; roles and sign-ins are for the AWS command line, which can export a key.
    Raises ConfigError for half a key, and for a profile that is named and not there.
    """
    profile = environ.get("AWS_PROFILE", "").strip()
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    access_id, secret, token = (environ.get(name, "").strip() for name in names)
    if access_id or secret:
        if access_id and secret:
            return AwsCredentials(access_id, secret, token)
        missing = "AWS_SECRET_ACCESS_KEY" if access_id else "AWS_ACCESS_KEY_ID"
        raise ConfigError(N_("The variable {name} is not set.", name=missing), N_("Set {name}.", name=missing))
    return _read_profile(environ, profile)


def _read_profile(environ: Mapping[str, str], profile: str) -> AwsCredentials | None:
    home = environ.get("HOME", "")
    file = environ.get("AWS_SHARED_CREDENTIALS_FILE", "").strip() or (
        os.path.join(home, ".aws", "credentials") if home else ""
    )
    text = _read_file(file) if file else None
    if text is None:
        if not profile:
            return None
        raise ConfigError(N_("The AWS profile {profile} needs {file}, which is not there.", profile=profile, file=file))
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        raise ConfigError(
            N_("{file} is not a file of AWS profiles.", file=file), "Fix it, or set AWS_ACCESS_KEY_ID."
        ) from None
    section = profile or "default"
    found = dict(parser.items(section)) if parser.has_section(section) else {}
    access_id, secret = found.get("aws_access_key_id", ""), found.get("aws_secret_access_key", "")
    if access_id and secret:
        return AwsCredentials(access_id, secret, found.get("aws_session_token", ""))
    if not profile:
        return None
    raise ConfigError(
        N_("{file} holds no access key for the profile {profile}.", file=file, profile=profile),
        "For roles and sign-ins: aws configure export-credentials --format env",
    )


def _read_file(file: str) -> str | None:
    try:
        with open(os.path.expanduser(file), encoding="utf-8", errors="replace") as source:
            return source.read(_MAX_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror)) from None


CLOUD = BedrockCloud()
