"""The rules that classify failures, as tables: how a provider's report gets its kind, and what each kind leads to.

Vendors' own names and words stand here as data and nowhere else. `FAILURE_RULES` is read from the top and the first
rule that fits decides. Its order is the order of trust: the HTTP status (with its finer rules above the bare one), the
provider's code, its words. A report without a status has the one that its code implies (`IMPLIED_STATUSES`). What no
rule knows is judged by the size of the request and by the status alone (`classify.py`).
"""

import re

from msgspec import Struct

from hermes.core.outcomes import FailureKind as Kind
from hermes.core.outcomes import Scope
from hermes.llm.error_report import OVER_LIMIT, UPSTREAM, ErrorReport


class FailureAdvice(Struct, frozen=True, kw_only=True):
    """What may help against a kind of failure, and what it is charged to; see `core.stream.Failure`."""

    retryable: bool = False
    rotate: bool = False
    fall_back: bool = True
    compress: bool = False
    scope: Scope = Scope.REQUEST
    hint: str = ""


_PASSING = FailureAdvice(retryable=True, scope=Scope.UPSTREAM)
_REWRITE = FailureAdvice()
_TOP_UP = "Top the account up, or use another provider."
_KEY = "Check the API key (`hermes auth`, or the provider's variable)."

ADVICE: dict[Kind, FailureAdvice] = {
    Kind.AUTH: FailureAdvice(rotate=True, scope=Scope.KEY, hint=_KEY),
    Kind.AUTH_PERMANENT: FailureAdvice(
        rotate=True, scope=Scope.KEY, hint="This key or its account is closed for good; use another key."
    ),
    Kind.BILLING: FailureAdvice(rotate=True, scope=Scope.ORGANISATION, hint=_TOP_UP),
    Kind.RATE_LIMIT: FailureAdvice(retryable=True, rotate=True, scope=Scope.KEY),
    Kind.UPSTREAM_RATE_LIMIT: _PASSING,
    Kind.OVERLOADED: _PASSING,
    Kind.SERVER_ERROR: _PASSING,
    Kind.TIMEOUT: _PASSING,
    Kind.UNREACHABLE: _PASSING,
    Kind.TLS: FailureAdvice(scope=Scope.UPSTREAM),
    Kind.CUT: _PASSING,
    Kind.CONTEXT_OVERFLOW: FailureAdvice(
        compress=True, hint="Start a new session, or use a model with a larger window."
    ),
    Kind.LONG_CONTEXT_TIER: FailureAdvice(compress=True, hint="The account has no access to long prompts."),
    Kind.PAYLOAD_TOO_LARGE: FailureAdvice(compress=True, hint="Start a new session, or send less at once."),
    Kind.IMAGE_TOO_LARGE: _REWRITE,
    Kind.IMAGES_UNSUPPORTED: _REWRITE,
    Kind.CONTENT_POLICY: FailureAdvice(hint="Ask in another way, or use another model."),
    Kind.PROVIDER_POLICY: FailureAdvice(
        scope=Scope.MODEL, hint="Change the privacy settings of the provider's account, or use another model."
    ),
    Kind.MODEL_NOT_FOUND: FailureAdvice(scope=Scope.MODEL, hint="Check `model.default` and `model.base_url`."),
    Kind.THINKING_SIGNATURE: _REWRITE,
    Kind.ENCRYPTED_CONTENT: _REWRITE,
    Kind.TOOL_CONTENT: _REWRITE,
    Kind.STREAMING: _REWRITE,
    Kind.GRAMMAR: _REWRITE,
    Kind.ROLE_ORDER: _REWRITE,
    Kind.REASONING_MISSING: FailureAdvice(hint="Set `model.reasoning_replay: on`."),
    Kind.SYSTEM_ROLE: _REWRITE,
    Kind.TOOL_ROLE: _REWRITE,
    Kind.PARALLEL_CALLS: _REWRITE,
    Kind.CALLS_WITH_TEXT: _REWRITE,
    Kind.FORMAT_ERROR: FailureAdvice(),
    Kind.BAD_RESPONSE: _PASSING,
    Kind.SPEND_LIMIT: FailureAdvice(fall_back=False),
    Kind.UNKNOWN: FailureAdvice(),
}
"""The advice of each kind, where its rule says nothing else."""


class FailureRule(Struct, frozen=True, kw_only=True):
    """One rule: a kind and the reports that are of it; then where it deviates from its kind's advice.

    In `statuses` 0 means none. `code` is searched in the provider's names and `says` in its words; what is
    given must all fit. `waits` is False where the wait that such a report names is known to be no help.
    """

    kind: Kind
    statuses: tuple[int, ...] = ()
    code: str = ""
    says: str = ""
    scope: Scope | None = None
    retryable: bool | None = None
    waits: bool = True
    hint: str = ""

    def matches_report(self, report: ErrorReport) -> bool:
        """Return whether the rule is about this report."""
        if self.statuses and report.status not in self.statuses:
            return False
        if self.code and not re.search(self.code, report.codes):
            return False
        return not self.says or re.search(self.says, report.words) is not None


def _whole_word_pattern(*names: str) -> str:
    """Return a pattern for codes that are numbers or plain words, which must not match inside others."""
    return rf"(?:^| )(?:{'|'.join(names)})(?: |$)"


_BILLING_CODE = (
    r"insufficient_?(quota|balance|credits?)|billing|creditserror|exceeded_current_quota|arrearage|payment_required"
    r"|spend_limit_reached|freetieronly|" + _whole_word_pattern("1113", "base_resp:1008")
)
_BILLING = (
    r"insufficient.{0,10}(quota|credit|balance|fund)|credit balance is too low|exceeded (your )?current quota"
    r"|out of credits|used all available credits|credits (are )?depleted|(spending|spend|billing hard) limit"
    r"|(have|has) any credits|requires more credits|more credits are required|(purchase|add) (more )?credits"
    r"|overdue|account is in good standing|paid balance|payment required|余额不足|欠费|请充值"
)
_KEY_LIMIT = r"key limit|limit (for|of) (this|your|the) (api )?key|key'?s? .{0,20}limit|key with a higher"
_OVERFLOW_CODE = (
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|max_prompt_tokens|"
    + _whole_word_pattern("1261")
)
_OVERFLOW = (
    r"context.?(length|window|limit|size)|maximum context|max_model_len|too many (input |prompt )?tokens"
    r"|(prompt|input|request|conversation) is too long"
    r"|exceeds? (the )?(available|maximum|model|max) .{0,20}(context|limit|tokens)"
    r"|input token count|input tokens exceed|reduce the length of|maximum.{0,20}prompt length|range of input length"
    r"|exceeds? n_ctx|keep the first \d{1,9} tokens|max_new_tokens` must be <=|max_tokens must be at least 1, got -"
)
_POLICY_CODE = (
    r"content_?(policy|filter|moderation)|responsibleai|data_?inspection_?failed|(bio|cyber)_policy|policy_violation"
    r"|moderation|flagged|" + _whole_word_pattern("1301", "base_resp:102[67]")
)
_POLICY = (
    r"content (management )?policy|content.?filter|safety (system|filter|setting|reasons)|requires moderation"
    r"|flagged|usage polic|violat.{0,30}(polic|guideline)|inappropriate content|sensitive (content|information)|敏感"
)
_ROUTING = (
    r"data policy|guardrail restrictions|privacy settings|data retention (policy|settings)|zero data retention"
    r"|all providers have been ignored|no allowed providers"
)
_NO_MODEL_CODE = (
    r"model_?not_?(found|supported|available|exist)|model_access_denied|unsupported_model|"
    + _whole_word_pattern("1211")
)
_NO_MODEL = (
    r"model.{0,10}not.?found|no such model|model.{0,100}(does not|doesn't|not) exist|unknown model|invalid model"
    r"|not a valid model|no endpoints found|have access to (the )?model|model.{0,80}is not (supported|available)"
    r"|model.{0,60}(deprecated|decommissioned|retired)|模型不存在"
)
_ACCOUNT_CLOSED_CODE = (
    r"account_deactivated|organization_on_hold|account_disabled|key_revoked|api_key_expired|"
    + _whole_word_pattern("1112")
)
_ACCOUNT_CLOSED = (
    r"organi[sz]ation has been (disabled|restricted|suspended)"
    r"|account.{0,60}(deactivated|disabled|terminated|banned|closed)|api.?key.{0,40}(revoked|expired|disabled|deleted|deactivated)"
)
_WRONG_KEY_CODE = r"invalid_?api_?key|authentication_error|api_key_invalid|unauthenticated|" + _whole_word_pattern(
    "base_resp:(1004|2049)"
)
_WRONG_KEY = r"api.?key.{0,40}(invalid|not valid|incorrect|missing|required)|(invalid|incorrect|no).{0,10}api.?key"
_OVERLOAD_CODE = r"overloaded|engine_busy|slow_down|unavailable|capacity_exceeded|" + _whole_word_pattern("1305")
_OVERLOAD = (
    r"overloaded|no capacity|capacity (temporarily )?exceeded|at capacity|server is busy"
    r"|servers? (are|is) (currently )?busy|high (demand|load|traffic)|temporarily unavailable|service unavailable"
    r"|loading model|maximum pending requests"
)
_RATE_LIMIT_CODE = (
    r"rate_?limit|resource_?exhausted|throttling|limit_requests|limit_burst|too_many_requests|usage_limit"
    r"|requests_limit|"
    + _whole_word_pattern("1302", "1303", "1304", "1308", "1310", "base_resp:(1002|1039|1041|2045|2056)")
)
_RATE_LIMIT = (
    r"rate.?limit|too many requests|quota exceeded|requests? per (second|minute|day)|usage limit|status code 429"
)
_UPSTREAM = r"rate.?limited upstream|error from provider|provider returned error|upstream (request|error|rate)"
_SIGNATURE = (
    r"signature.{0,60}thinking|thinking.{0,60}signature|expected `?thinking`? or `?redacted_thinking"
    r"|thinking.{0,40}blocks?.{0,80}cannot be modified|thought_?signature"
)
_ENCRYPTED = r"encrypted.?content.{0,300}(could not be|not issued|verif|decrypt)"
_IMAGE_TOO_LARGE = r"image (exceeds|dimensions|size|is too|too)|image.{0,40}(too large|exceeds? )|max allowed size: \d"
_NO_IMAGES = (
    r"support image input|image_url is only supported|unknown variant .?image_url|not a multimodal model"
    r"|at most 0 image|not support (image|vision|multimodal)|missing data required for image"
)
_GRAMMAR = (
    r"pars(e|ing) grammar|grammar.{0,40}(repetition|invalid|error)|schema conversion failed|pattern must start with"
)
_TOOL_IMAGE = (
    r"image urls are only allowed|role 'tool'.{0,80}image|image.{0,80}role.{0,6}tool|uploaded an unsupported image"
    r"|image input is not supported"
    r"|tool.{0,40}(content|messages?).{0,60}(must be|should be|only supports?) .{0,20}(string|text)"
)
_LONG_TIER = r"extra usage is required for (long|\d+[km]) context|long.context (tier|pricing|requests)"
_BETA_REFUSED = r"long.context beta.{0,60}not|anthropic-beta"
"""What is refused because of a header field: the request is good without it (`llm/client.py`)."""
_PER_MODEL = r"limit reached for \S|\bmodel: ?\S|limit.{0,20} for (this|the) model"
_PER_ORGANISATION = r"organi[sz]ation|\bproject (tpm|rpm|rate)|\bteam\b"
_TRY_AGAIN = r"try again (in|at|after)|resets? (at|in|on)|temporar|usage limit|weekly|monthly|daily"
_FORMAT_CODE = (
    r"unknown_parameter|unsupported_(parameter|value)|missing_required|invalid_type|invalid_function|extra_forbidden"
)
_FORMAT = (
    r"extra inputs are not permitted|field required|unknown (field|parameter|name)|missing required"
    r"|must be followed by tool|tool_use.{0,20} ids|not a valid (dictionary|list|string)"
)
_ROLE_ORDER = (
    r"roles (must|should) (be )?alternat|alternate between .?user|should (be alternating|alternate with assistant)"
    r"|requests alternate between user and model|does not support successive|unexpected role .{1,20} after role"
    r"|expected last role|prefill is incompatible|support assistant (message|response) prefill"
    r"|the last message (of \S{1,60} )?must (be|have role) .{0,30}user|must end with a user message"
    r"|last message is from the assistant|2 or more assistant messages at the end"
    r"|first message must use the user role|must start with a user|no user query found"
    r"|role .?assistant.? must not be empty|must contain either .?content.? or .?tool_calls"
    r"|assistant message must have either content or tool_calls, but not none|must have non-empty content"
)
_SYSTEM_ROLE = (
    r"system (role|messages?|prompt) (is |are )?not supported|does not support (the )?system (role|message|prompt)"
    r"|system role is not (allowed|enabled)|developer instruction is not enabled"
)
_TOOL_ROLE = (
    r"only user(,| and) .{0,20}assistant roles are supported|unexpected (message )?role:? .{0,2}tool\b(?!.{0,3} after)"
    r"|(unknown|invalid|unsupported) role:? .{0,2}tool\b|unknown variant .tool.|tool role is not supported"
    r"|role .?tool.? is not (supported|allowed)|.tool. is not one of .{0,30}(system|user)"
)
_PARALLEL_CALLS = r"supports single tool.?calls? at once|parallel tool calls are not supported|only one tool call"
_REASONING_MISSING = r"reasoning_content.{0,40} (must be passed back|is missing)"
_CALLS_WITH_TEXT = r"content or tool_calls.{0,3}but not both|both content and tool_calls"
_NO_STREAMS = (
    r"stream(ing|ed)?\b.{0,40}(not|n't) (\w+ )?(support|available|allowed|enabled|implement)"
    r"|(not|n't) (\w+ )?support.{0,20}\bstream|unsupported.{0,30}\bstream(ing)?\b|verified to stream"
    r"|\bstream\b.{0,10} (must|should|has to) be (set to )?false"
)
_NO_TOOLS = "This model takes no tools; use another one (`model.default`)."

IMPLIED_STATUSES: tuple[tuple[str, int], ...] = (
    (_whole_word_pattern("base_resp:(1002|1039|1041|2045|2056)"), 429),
    (_whole_word_pattern("base_resp:(1004|2049)"), 401),
    (_whole_word_pattern("base_resp:1008"), 402),
    (_whole_word_pattern("base_resp:1001"), 504),
    (_whole_word_pattern("base_resp:(1026|1027|2013)"), 400),
    (_whole_word_pattern("base_resp:(1000|1013|1024|1033)"), 500),
    (r"overloaded_error|engine_overloaded", 529),
    (_RATE_LIMIT_CODE, 429),
    (_whole_word_pattern("1113"), 429),
    (r"insufficient_quota|exceeded_current_quota", 429),
    (r"billing_error|insufficient_balance|payment_required", 402),
    (r"authentication_error|unauthenticated|invalid_?api_?key", 401),
    (r"permission_?(error|denied)", 403),
    (r"request_too_large", 413),
    (r"timeout_error|deadline_exceeded", 504),
    (r"not_found_error|model_not_found|notfounderror", 404),
    (_whole_word_pattern("unavailable", "unavailable_error", "service_unavailable"), 503),
    (r"invalid_?(request|prompt|argument|param)|badrequest|failed_precondition", 400),
)
"""The status that a provider's own name implies, for errors that come without one."""


def _make_rule(kind: Kind, *statuses: int, code: str = "", says: str = "", scope: Scope | None = None) -> FailureRule:
    return FailureRule(kind=kind, statuses=statuses, code=code, says=says, scope=scope)


_DAILY_LIMIT = FailureRule(
    kind=Kind.RATE_LIMIT, statuses=(429,), code="perday", scope=Scope.MODEL, retryable=False, waits=False
)

FAILURE_RULES: tuple[FailureRule, ...] = (
    # 401 and 403: the key, unless its account is closed or empty.
    _make_rule(Kind.BILLING, 401, 403, code=_BILLING_CODE),
    _make_rule(Kind.AUTH_PERMANENT, 401, 403, code=_ACCOUNT_CLOSED_CODE),
    _make_rule(Kind.MODEL_NOT_FOUND, 401, 403, code=_NO_MODEL_CODE),
    _make_rule(Kind.BILLING, 401, 403, says=_KEY_LIMIT, scope=Scope.KEY),
    _make_rule(Kind.BILLING, 401, 403, says=_BILLING),
    _make_rule(Kind.AUTH_PERMANENT, 401, 403, says=_ACCOUNT_CLOSED),
    _make_rule(Kind.AUTH, 401),
    # 402: money, unless it is a quota that comes back by itself.
    _make_rule(Kind.BILLING, 402, says=_KEY_LIMIT, scope=Scope.KEY),
    _make_rule(Kind.BILLING, 402, says=_BILLING),
    _make_rule(Kind.RATE_LIMIT, 402, says=_TRY_AGAIN + r"|try again"),
    _make_rule(Kind.BILLING, 402),
    # 403: what policies forbid, then the key itself.
    _make_rule(Kind.CONTENT_POLICY, 403, says=_POLICY),
    _make_rule(Kind.AUTH, 403),
    # 404: the model, unless the account's settings leave nobody who may serve it, or nobody takes pictures.
    _make_rule(Kind.IMAGES_UNSUPPORTED, 404, says=_NO_IMAGES),
    _make_rule(Kind.PROVIDER_POLICY, 404, says=_ROUTING),
    _make_rule(Kind.MODEL_NOT_FOUND, 404),
    _make_rule(Kind.TIMEOUT, 408, 504, 522, 524),
    _make_rule(Kind.OVERLOADED, 409),
    _make_rule(Kind.PAYLOAD_TOO_LARGE, 413),
    # 429: what waiting does not help first, then whose limit it is.
    _make_rule(Kind.PAYLOAD_TOO_LARGE, 429, code=OVER_LIMIT),
    _make_rule(Kind.UPSTREAM_RATE_LIMIT, 429, code=UPSTREAM),
    _make_rule(Kind.OVERLOADED, 429, code=_OVERLOAD_CODE),
    _DAILY_LIMIT,
    _make_rule(Kind.RATE_LIMIT, 429, code=r"resource_?exhausted.{0,400}permodel", scope=Scope.MODEL),
    _make_rule(Kind.LONG_CONTEXT_TIER, 429, says=_LONG_TIER),
    _make_rule(Kind.UPSTREAM_RATE_LIMIT, 429, says=_UPSTREAM),
    _make_rule(Kind.OVERLOADED, 429, says=_OVERLOAD),
    FailureRule(
        kind=Kind.RATE_LIMIT, statuses=(429,), says=r"limit: 0\b", scope=Scope.MODEL, retryable=False, waits=False
    ),
    _make_rule(Kind.RATE_LIMIT, 429, code=r"resource_?exhausted"),
    _make_rule(Kind.RATE_LIMIT, 429, code=r"throttling|limit_requests|limit_burst"),
    _make_rule(Kind.RATE_LIMIT, 429, says=r"error-code#token-limit|allocated quota exceeded"),
    _make_rule(Kind.RATE_LIMIT, 429, says=r"free-models-per", scope=Scope.ORGANISATION),
    _make_rule(Kind.BILLING, 429, code=_BILLING_CODE),
    _make_rule(Kind.BILLING, 429, says=_BILLING),
    _make_rule(Kind.RATE_LIMIT, 429, says=_PER_MODEL, scope=Scope.MODEL),
    _make_rule(Kind.RATE_LIMIT, 429, says=_PER_ORGANISATION, scope=Scope.ORGANISATION),
    _make_rule(Kind.RATE_LIMIT, 429),
    # What chat templates and validators of roles refuse: with a 400 or 422, or with a 500 as a fault of the template.
    _make_rule(Kind.REASONING_MISSING, says=_REASONING_MISSING),
    _make_rule(Kind.CALLS_WITH_TEXT, says=_CALLS_WITH_TEXT),
    _make_rule(Kind.PARALLEL_CALLS, says=_PARALLEL_CALLS),
    _make_rule(Kind.SYSTEM_ROLE, says=_SYSTEM_ROLE),
    _make_rule(Kind.ROLE_ORDER, says=_ROLE_ORDER),
    _make_rule(Kind.ROLE_ORDER, code=r"invalid_request_message_order"),
    _make_rule(Kind.TOOL_ROLE, says=_TOOL_ROLE),
    # 500 and 502 are the last resort of many servers; what they name stands.
    _make_rule(Kind.CONTEXT_OVERFLOW, 500, 502, code=_OVERFLOW_CODE),
    _make_rule(Kind.TOOL_CONTENT, 500, says=_TOOL_IMAGE),
    _make_rule(Kind.IMAGES_UNSUPPORTED, 500, says=_NO_IMAGES),
    _make_rule(Kind.CONTEXT_OVERFLOW, 500, 502, says=_OVERFLOW),
    _make_rule(Kind.BILLING, 500, 502, says=_BILLING),
    _make_rule(Kind.RATE_LIMIT, 500, 502, says=r"status code 429|too many requests"),
    _make_rule(Kind.OVERLOADED, 500, 502, says=_OVERLOAD),
    _make_rule(Kind.SERVER_ERROR, 500, 502),
    _make_rule(Kind.OVERLOADED, 503, 529),
    _make_rule(Kind.LONG_CONTEXT_TIER, 0, 400, says=_BETA_REFUSED),
    # Any other status, 400 and 422 above all. What a server cannot stream first: its code is that of any wrong value.
    _make_rule(Kind.STREAMING, 0, 400, 405, 406, 415, 422, 501, says=_NO_STREAMS),
    # Then pictures for a model without eyes: many servers give that the code of any wrong value.
    _make_rule(Kind.IMAGES_UNSUPPORTED, 0, 400, 415, 422, says=_NO_IMAGES),
    # Then the provider's code.
    _make_rule(Kind.ENCRYPTED_CONTENT, code=r"invalid_encrypted_content"),
    _make_rule(Kind.IMAGE_TOO_LARGE, code=r"image_(file_)?too_large"),
    _make_rule(Kind.CONTEXT_OVERFLOW, code=_OVERFLOW_CODE),
    _make_rule(Kind.BILLING, code=_BILLING_CODE),
    _make_rule(Kind.AUTH_PERMANENT, code=_ACCOUNT_CLOSED_CODE),
    _make_rule(Kind.CONTENT_POLICY, code=_POLICY_CODE),
    _make_rule(Kind.AUTH, code=_WRONG_KEY_CODE),
    _make_rule(Kind.MODEL_NOT_FOUND, code=_NO_MODEL_CODE),
    _make_rule(Kind.OVERLOADED, code=_OVERLOAD_CODE),
    _make_rule(Kind.RATE_LIMIT, code=_RATE_LIMIT_CODE),
    _make_rule(Kind.BAD_RESPONSE, code=_whole_word_pattern("not_json")),
    FailureRule(kind=Kind.FORMAT_ERROR, code=r"tool_use_failed", retryable=True),
    _make_rule(Kind.FORMAT_ERROR, code=_FORMAT_CODE),
    # Then its words, the narrowest first.
    _make_rule(Kind.THINKING_SIGNATURE, says=_SIGNATURE),
    _make_rule(Kind.ENCRYPTED_CONTENT, says=_ENCRYPTED),
    _make_rule(Kind.IMAGE_TOO_LARGE, says=_IMAGE_TOO_LARGE),
    _make_rule(Kind.GRAMMAR, says=_GRAMMAR),
    _make_rule(Kind.TOOL_CONTENT, says=_TOOL_IMAGE),
    _make_rule(Kind.BILLING, says=_BILLING),
    _make_rule(Kind.AUTH_PERMANENT, says=_ACCOUNT_CLOSED),
    _make_rule(Kind.AUTH, says=_WRONG_KEY),
    _make_rule(Kind.CONTEXT_OVERFLOW, says=_OVERFLOW),
    _make_rule(Kind.PROVIDER_POLICY, says=_ROUTING),
    _make_rule(Kind.CONTENT_POLICY, says=_POLICY),
    _make_rule(Kind.MODEL_NOT_FOUND, says=_NO_MODEL),
    _make_rule(Kind.RATE_LIMIT, says=_RATE_LIMIT),
    _make_rule(Kind.OVERLOADED, says=_OVERLOAD),
    FailureRule(kind=Kind.FORMAT_ERROR, says=r"does not support tools", hint=_NO_TOOLS),
    _make_rule(Kind.FORMAT_ERROR, says=_FORMAT),
    _make_rule(Kind.TIMEOUT, says=r"timed?.?out|gateway time"),
    _make_rule(Kind.SERVER_ERROR, says=r"internal (server )?error|server had an error|bad gateway|web server is"),
    # A name that says only whose fault it is, last of all.
    _make_rule(Kind.SERVER_ERROR, 0, code=r"server_?error|api_error|internal|" + _whole_word_pattern("error")),
)


def find_rule(report: ErrorReport) -> FailureRule | None:
    """Return the first rule that fits; None when the table does not know such a failure."""
    return next((row for row in FAILURE_RULES if row.matches_report(report)), None)


def infer_status(report: ErrorReport) -> int:
    """Return the HTTP status that a report without one implies, by what it names or by its code; 0 for none."""
    return report.named_status or next(
        (status for code, status in IMPLIED_STATUSES if re.search(code, report.codes)), 0
    )
