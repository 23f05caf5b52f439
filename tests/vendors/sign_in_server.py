"""A fake vendor that people sign in to with a subscription: device codes with their quirks, an id token, and models
that answer to a valid token. A vendor may also exchange a token that lasts for short-lived ones, want the refresh token
in a header field, or speak of milliseconds and states.

The person behind a device code follows a script: `waits` answers before the decision, then `decision`.
"""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hermes.oauth.pkce import compute_challenge
from tests.vendors.oauth_server import FakeOAuthServer, _Grant, _Request, _write, _write_json

ACCOUNT = "account-7"
CLAIM = ("https://vendor.example/auth", "account_id")
CLIENT = "client-of-a-person"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class FakeVendor(FakeOAuthServer):
    """The vendor. `heads` and the fields below say what clients have done."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        """What is answered before the decision: `authorization_pending` or `slow_down`, one a question."""
        self.decision = "yes"
        """`yes`, or the error code at the end."""
        self.interval: object = 5
        self.life: object = 900
        self.tells_errors_as_success = False
        """Whether errors of the polling come with status 200."""
        self.refuses_all_tokens = False
        """Whether the models answer 401 to whatever token."""
        self.refusal: Mapping[str, object] = {"error": {"message": "The token has expired.", "code": "token_expired"}}
        self.polls = self.answers = 0
        self.model_headers: list[dict[str, str]] = []
        self.token_statuses: list[int] = []
        """What the next refreshes answer with before any happens."""
        self.echoes_secrets = False
        """Whether what is refused is repeated in the reason."""
        self.exchanges = 0
        self.exchange_status = 0
        """What the exchange answers with in the place of a token; 0: it gives one."""
        self.exchange_fields: dict[str, str] = {}
        """The header fields of the last exchange."""
        self.gives_lasting_tokens = False
        """Whether a sign-in brings one token that lasts, and the models take only what it is exchanged for."""
        self.models_at: object = None
        """The address of the models that the exchange names; None: its own."""
        self.refresh_header = ""
        """The header field that has to carry refresh tokens, which no form may."""
        self.speaks_milliseconds = False
        """Whether it wants PKCE in the device flow, and tells times in milliseconds and progress by a state."""
        self.echoes_state = ""
        """The state that the device flow answers with in the place of the one that was sent."""
        self.model_paths: list[str] = []
        self._device_codes: dict[str, str] = {}
        self._challenges: dict[str, str] = {}
        self._short_tokens: dict[str, str] = {}

    def sign_in_elsewhere(self, client_id: str) -> tuple[str, str]:
        """Return the tokens of a sign-in that another program has made."""
        grant = _Grant(client_id, "", "", access=secrets.token_urlsafe(24), refresh=secrets.token_urlsafe(24))
        self._grants.append(grant)
        return grant.access, grant.refresh

    def expire_access_tokens(self) -> None:
        """Make every token that the models take invalid; what lasts stays."""
        self._short_tokens.clear()
        if not self.gives_lasting_tokens:
            super().expire_access_tokens()

    async def _answer_client(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        match request.path:
            case "/device/code" if self.speaks_milliseconds:
                self._give_user_code(request.form, writer)
            case "/device/code":
                self._give_device_code(request.form["client_id"], "device_code", writer)
            case "/exchange":
                await self._exchange(request, writer)
            case "/accounts/usercode":
                self._give_device_code(json.loads(request.body)["client_id"], "device_auth_id", writer)
            case "/accounts/token":
                self._decide_by_status(json.loads(request.body), writer)
            case "/token" if request.form.get("grant_type") == DEVICE_GRANT:
                await self._decide_by_code(request.form, writer)
            case "/token" if self.token_statuses and request.form.get("grant_type") == "refresh_token":
                _write_json(writer, self.token_statuses.pop(0), {})
            case "/token" if self.refresh_header and request.form.get("grant_type") == "refresh_token":
                token = request.headers.get(self.refresh_header, "")
                form = request.form | {"refresh_token": "" if "refresh_token" in request.form else token}
                _write_json(writer, *await self._give_tokens(form))
            case "/v1/responses" | "/v1/chat/completions" | "/anthropic/v1/messages":
                self._answer_model(request, writer)
            case _:
                await super()._answer_client(request, writer)

    async def _give_tokens(self, form: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
        status, answer = await super()._give_tokens(form)
        if status != 200:
            return status, {**answer, "error_description": f"no: {dict(form)}"} if self.echoes_secrets else answer
        if self.speaks_milliseconds:
            return status, self._tell_tokens(str(answer["access_token"]), str(answer["refresh_token"]))
        return status, {**answer, "id_token": make_id_token()}

    def _give_device_code(self, client_id: str, field: str, writer: asyncio.StreamWriter) -> None:
        code = secrets.token_urlsafe(16)
        self._device_codes[code] = client_id
        page = {"verification_uri": f"{self.url}/device"} if field == "device_code" else {}
        told = {field: code, "user_code": "WXYZ-1234", "interval": self.interval, "expires_in": self.life, **page}
        _write_json(writer, 200, told)

    def _give_user_code(self, form: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        assert form["code_challenge_method"] == "S256" and form["state"]
        self._device_codes["WXYZ-1234"] = form["client_id"]
        self._challenges["WXYZ-1234"] = form["code_challenge"]
        end = (time.time() + float(str(self.life))) * 1_000
        told = {"user_code": "WXYZ-1234", "verification_uri": f"{self.url}/device", "expired_in": end}
        _write_json(writer, 200, {**told, "interval": self.interval, "state": self.echoes_state or form["state"]})

    @staticmethod
    def _tell_tokens(access: str, refresh: str) -> Mapping[str, object]:
        end = int((time.time() + 3_600) * 1_000)
        return {"status": "success", "access_token": access, "refresh_token": refresh, "expired_in": end}

    async def _exchange(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        """Give a short-lived token for one that lasts, which stays valid."""
        self.exchange_fields = request.headers
        lasting = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.refresh_began.set()
        await asyncio.sleep(self.refresh_delay)
        if self.exchange_status:
            _write_json(writer, self.exchange_status, {"message": f"No access with {lasting}."})
            return
        if not any(lasting == grant.access for grant in self._grants if grant.access):
            _write_json(writer, 401, {"message": "Bad credentials"})
            return
        self.exchanges += 1
        short = secrets.token_urlsafe(24)
        self._short_tokens[short] = lasting
        where = {"endpoints": {"api": self.models_at or f"{self.url}/v1"}}
        _write_json(writer, 200, {"token": short, "expires_at": int(time.time()) + 1_500, "refresh_in": 1_400, **where})

    def _decide(self) -> str:
        self.polls += 1
        return self.waits.pop(0) if self.waits else self.decision

    async def _decide_by_code(self, form: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        said, field = self._decide(), "user_code" if self.speaks_milliseconds else "device_code"
        client_id = self._device_codes.get(form[field])
        if self.speaks_milliseconds and compute_challenge(form["code_verifier"]) != self._challenges[form[field]]:
            said = "invalid_grant"
        if self.speaks_milliseconds and said in ("pending", "denied"):
            _write_json(writer, 200, {"status": said})
            return
        if client_id != form["client_id"]:
            said = "invalid_grant"
        if said != "yes":
            _write_json(writer, 200 if self.tells_errors_as_success else 400, {"error": said})
            return
        del self._device_codes[form[field]]
        grant = _Grant(client_id, "", "", access=secrets.token_urlsafe(24), refresh=secrets.token_urlsafe(24))
        self._grants.append(grant)
        self.sign_ins += 1
        if self.speaks_milliseconds:
            _write_json(writer, 200, self._tell_tokens(grant.access, grant.refresh))
            return
        if self.gives_lasting_tokens:
            _write_json(writer, 200, {"access_token": grant.access, "token_type": "bearer", "scope": "read:user"})
            return
        tokens = {"access_token": grant.access, "refresh_token": grant.refresh, "token_type": "bearer"}
        _write_json(writer, 200, {**tokens, "expires_in": 3_600, "id_token": make_id_token()})

    def _decide_by_status(self, told: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        """Answer as a vendor does that tells by the status, and hands out an authorization code at the end."""
        said = self._decide()
        if said != "yes":
            status = 403 if said == "authorization_pending" else 400
            _write_json(writer, status, {} if status == 403 else {"error": {"code": said, "message": "no"}})
            return
        import hashlib

        verifier, code = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
        proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        client_id = self._device_codes.pop(told["device_auth_id"])
        self._codes[code] = _Grant(client_id, "", "", challenge=proof, redirect_uri=f"{self.url}/device/callback")
        _write_json(writer, 200, {"authorization_code": code, "code_verifier": verifier})

    def _answer_model(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        self.model_headers.append(request.headers)
        self.model_paths.append(request.path)
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        self.tokens.append(token)
        valid = [grant.access for grant in self._grants if grant.access and not self.gives_lasting_tokens]
        if self.refuses_all_tokens or token not in (*valid, *self._short_tokens):
            _write_json(writer, 401, self.refusal)
            return
        self.answers += 1
        format_name = request.path.rpartition("/")[2]
        events = {"responses": _RESPONSE, "messages": _MESSAGES}.get(format_name, _CHAT)
        body = b"".join(
            b"event: %s\ndata: %s\n\n" % (str(event.get("type", "")).encode(), json.dumps(event).encode())
            for event in events
        )
        _write(writer, 200, {"content-type": "text/event-stream"}, body + b"data: [DONE]\n\n")


_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
_RESPONSE: list[dict[str, object]] = [
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {"type": "response.completed", "response": {"status": "completed", "output": [_ITEM]}},
]
_CHAT: list[dict[str, object]] = [
    {"choices": [{"index": 0, "delta": {"content": "Hello."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]

_MESSAGES: list[dict[str, object]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


def make_id_token() -> str:
    """Return an id token with the account in its claims, signed by nobody."""
    parts = ({"alg": "none"}, {"sub": "someone", CLAIM[0]: {CLAIM[1]: ACCOUNT}})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, "x"])


@asynccontextmanager
async def fake_vendor() -> AsyncIterator[FakeVendor]:
    """Run a fake for the time of a test."""
    server = FakeVendor()
    await server.start()
    try:
        yield server
    finally:
        await server.close()
