"""Errors about keys, money and limits, as vendors really send them; see `vendor_errors.Case`."""

from hermes.core.outcomes import FailureKind as Kind
from hermes.core.outcomes import Scope
from tests.llm.vendor_errors import (
    BOTH,
    CHAT,
    MESSAGES,
    OPENAI,
    RESPONSES,
    RETRY,
    Case,
    anthropic,
    google,
    minimax,
    openai,
    quota,
    router,
)

EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
ORGANISATION_TPM = (
    "This request would exceed the rate limit for your organization of 20,000 input tokens per minute. For details, "
    "refer to: https://docs.anthropic.com/en/api/rate-limits."
)
TPM = "tokens per min (TPM): Limit 30000, Used 28802, Requested 2500. Please try again in 2.604s."
GROQ_TPM = "service tier `on_demand` on tokens per minute (TPM): Limit 12000,"
UPSTREAM = "z-ai/glm-5.3-flash is temporarily rate-limited upstream. Please retry shortly, or add your own key"
MORE_CREDITS = "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens"

ACCOUNT_ERRORS: tuple[Case, ...] = (
    Case(
        Kind.AUTH,
        "OpenAI",
        401,
        openai("Incorrect API key provided: sk-a.", code="invalid_api_key"),
        "unchecked: docs",
        OPENAI,
    ),
    Case(Kind.AUTH, "Anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), "SDK types", (MESSAGES,)),
    Case(
        Kind.AUTH,
        "xAI",
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: na***ys."},
        "continuedev/continue#10778",
        OPENAI,
    ),
    Case(
        Kind.AUTH,
        "Gemini",
        400,
        google(
            400,
            "API key not valid. Please pass a valid API key.",
            "INVALID_ARGUMENT",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
        ),
        "unchecked: docs",
        (CHAT,),
    ),
    Case(
        Kind.AUTH,
        "MiniMax",
        200,
        minimax(1004, "login fail: Please carry the API secret key in the 'Authorization' field"),
        "docs: errorcode",
        (CHAT,),
        ways=("stream", "whole"),
    ),
    Case(
        Kind.AUTH, "OpenRouter", 401, {"error": {"message": "User not found.", "code": 401}}, "unchecked: docs: errors"
    ),
    Case(
        Kind.AUTH_PERMANENT,
        "OpenAI",
        401,
        openai("Your OpenAI account has been deactivated, please check your email.", code="account_deactivated"),
        "songquanpeng/one-api#271",
        OPENAI,
    ),
    Case(
        Kind.AUTH_PERMANENT,
        "Anthropic",
        400,
        anthropic("invalid_request_error", "This organization has been disabled."),
        "anthropics/claude-code#8327",
        (MESSAGES,),
    ),
    Case(
        Kind.AUTH_PERMANENT,
        "Groq",
        400,
        openai("Organization has been restricted. Please reach out to support if you believe this was in error."),
        "songquanpeng/one-api#271",
        OPENAI,
    ),
    Case(
        Kind.BILLING,
        "OpenAI",
        429,
        openai(EXCEEDED, "insufficient_quota", "insufficient_quota"),
        "unchecked: docs",
        OPENAI,
    ),
    Case(
        Kind.BILLING,
        "Anthropic",
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.BILLING,
        "DeepSeek",
        402,
        openai("Insufficient Balance", "unknown_error", "invalid_request_error"),
        "666ghj/BettaFish#286",
        BOTH,
    ),
    Case(
        Kind.BILLING,
        "GLM",
        429,
        {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}},
        "edison7009/EchoBird#104",
        BOTH,
    ),
    Case(
        Kind.BILLING,
        "Kimi",
        429,
        {
            "error": {
                "message": "Your account org-4 is suspended due to insufficient balance, please recharge your account",
                "type": "exceeded_current_quota_error",
            }
        },
        "MoonshotAI/kimi-code#1857",
        BOTH,
    ),
    Case(
        Kind.BILLING,
        "xAI",
        429,
        {
            "code": "Some resource has been exhausted",
            "error": "Your team 16f has either used all available credits or reached its monthly spending limit.",
        },
        "continuedev/continue#10373",
        OPENAI,
    ),
    Case(
        Kind.BILLING,
        "MiniMax",
        500,
        anthropic("api_error", "insufficient balance (1008)"),
        "MiniMax-AI/MiniMax-M2#62",
        (MESSAGES,),
    ),
    Case(
        Kind.BILLING,
        "MiniMax",
        200,
        minimax(1008, "insufficient balance"),
        "docs: errorcode",
        (CHAT,),
        ways=("stream", "whole"),
    ),
    Case(
        Kind.BILLING,
        "Qwen",
        400,
        openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage"),
        "docs: error-code",
    ),
    Case(Kind.BILLING, "OpenRouter", 402, router(MORE_CREDITS, 402, provider_name=None), "Gitlawb/openclaude#1125"),
    Case(
        Kind.BILLING,
        "OpenRouter",
        403,
        {"error": {"message": "Key limit exceeded (total limit). Manage it using https://openrouter.ai", "code": 403}},
        "unchecked: docs: limits",
        scope=Scope.KEY,
    ),
    Case(
        Kind.RATE_LIMIT,
        "OpenAI",
        429,
        openai(f"Rate limit reached for gpt-4o in organization org-V on {TPM}", "tokens", "rate_limit_exceeded"),
        "unchecked: docs: rate limits",
        OPENAI,
        scope=Scope.MODEL,
        wait=2.604,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Groq",
        429,
        openai(
            "Rate limit reached for model `llama-3.1-8b-instant` in organization `org_0` "
            f"{GROQ_TPM} Used 11034, Requested 1443. Please try again in 4.77s. Need more tokens?",
            "tokens",
            "rate_limit_exceeded",
        ),
        "elizaOS/eliza#4040",
        OPENAI,
        scope=Scope.MODEL,
        wait=4.77,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Gemini",
        429,
        google(
            429, EXCEEDED, "RESOURCE_EXHAUSTED", quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), RETRY
        ),
        "oppl.ai/llms/gemini_complex_1",
        (CHAT,),
        scope=Scope.MODEL,
        wait=21.0,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Gemini",
        429,
        google(429, EXCEEDED, "RESOURCE_EXHAUSTED", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY),
        "oppl.ai/llms/gemini_complex_1",
        (CHAT,),
        scope=Scope.MODEL,
        retryable=False,
    ),
    Case(
        Kind.RATE_LIMIT, "Anthropic", 429, anthropic("rate_limit_error", "Rate limited"), "unchecked: docs", (MESSAGES,)
    ),
    Case(
        Kind.RATE_LIMIT,
        "Anthropic",
        429,
        anthropic("rate_limit_error", ORGANISATION_TPM),
        "unchecked: docs: rate limits",
        (MESSAGES,),
        scope=Scope.ORGANISATION,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Anthropic",
        429,
        {"error": {"code": "rate_limit_error", "message": ORGANISATION_TPM, "type": "invalid_request_error"}},
        "FoundationAgents/OpenManus#746",
        (CHAT,),
        scope=Scope.ORGANISATION,
    ),
    Case(
        Kind.RATE_LIMIT,
        "GLM",
        429,
        {"error": {"code": "1302", "message": "您当前使用该API的并发数过高，请降低并发，或联系客服增加限额。"}},
        "unchecked: docs: error codes",
        BOTH,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Mistral",
        429,
        {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300"},
        "cline/cline#9085",
        (CHAT,),
    ),
    Case(
        Kind.RATE_LIMIT,
        "Kimi",
        429,
        {
            "error": {
                "message": "request reached organization max RPM: 3, please try again after 1 seconds",
                "type": "rate_limit_reached_error",
            }
        },
        "MoonshotAI/Kimi-K2#34",
        BOTH,
        scope=Scope.ORGANISATION,
        wait=1.0,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Qwen",
        429,
        openai(
            f"{EXCEEDED} For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit",
            "insufficient_quota",
            "insufficient_quota",
        ),
        "hawkxtreme/mini-ai-1c#23",
    ),
    Case(
        Kind.RATE_LIMIT,
        "Qwen",
        429,
        {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded, please try again later."},
        "docs: error-code",
        ways=("http", "whole", "stream"),
    ),
    Case(
        Kind.RATE_LIMIT,
        "MiniMax",
        200,
        minimax(1002, "rate limit"),
        "docs: errorcode",
        (CHAT,),
        ways=("stream", "whole"),
    ),
    Case(
        Kind.RATE_LIMIT,
        "OpenRouter",
        429,
        router(
            "Rate limit exceeded: free-models-per-min. ",
            429,
            headers={"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1760000007000"},
            provider_name=None,
        ),
        "Gitlawb/openclaude#936",
        scope=Scope.ORGANISATION,
        wait=7.0,
    ),
    Case(
        Kind.RATE_LIMIT,
        "OpenAI",
        429,
        {
            "error": {
                "type": "usage_limit_reached",
                "message": "The usage limit has been reached",
                "plan_type": "plus",
                "resets_at": 1760013872,
                "resets_in_seconds": 13872,
            }
        },
        "earendil-works/pi#4172",
        (RESPONSES,),
        wait=13872.0,
    ),
    Case(
        Kind.UPSTREAM_RATE_LIMIT,
        "OpenRouter",
        429,
        router("Provider returned error", 429, raw=UPSTREAM, provider_name="BaseTen"),
        "open-webui/computer#293",
    ),
    Case(
        Kind.UPSTREAM_RATE_LIMIT,
        "OpenCode",
        429,
        openai("Error from provider (Xiaomi): Too many requests", "limitation", "429"),
        "anomalyco/opencode#29912",
        BOTH,
    ),
    Case(
        Kind.BILLING,
        "OpenCode",
        401,
        {
            "message": "Insufficient balance. Manage your billing here",
            "type": "CreditsError",
            "param": "",
            "code": None,
        },
        "TiaraBasori/OpenCode2API#5",
        BOTH,
        ways=("http",),
    ),
    Case(
        Kind.BILLING,
        "Kimi",
        403,
        {
            "error": {
                "message": "Your account x is not active, organization x exceeded current quota, please check it",
                "type": "exceeded_current_quota_error",
            }
        },
        "MoonshotAI/Kimi-K2#5",
        BOTH,
    ),
    Case(
        Kind.BILLING,
        "SiliconFlow",
        403,
        {
            "code": 30011,
            "message": "The selected model requires paid balance. Please top up and try again.",
            "data": None,
        },
        "FoundationAgents/OpenManus#438",
        (CHAT,),
    ),
    Case(
        Kind.BILLING,
        "OpenRouter",
        402,
        {
            "error": {
                "message": f"{MORE_CREDITS}. To increase, visit https://o.ai and adjust the key's monthly limit",
                "code": 402,
            }
        },
        "jacob-bd/relay-ai#72",
        scope=Scope.KEY,
    ),
    Case(
        Kind.BILLING,
        "MiniMax",
        429,
        {
            "error": {
                "http_code": "429",
                "message": "insufficient balance (1008)",
                "type": "insufficient_balance_error",
            },
            "request_id": "x",
        },
        "modelscope/modelscope#1691",
        BOTH,
    ),
    Case(
        Kind.AUTH_PERMANENT,
        "OpenAI",
        401,
        openai("Your OpenAI account has been deactivated, please check your email for more information.", "requests"),
        "aandrew-me/tgpt#171",
        OPENAI,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Gemini",
        429,
        google(
            429,
            f"{EXCEEDED} * Quota exceeded for metric: generate_content_free_tier_requests, limit: 0, model: gemini-2.0-"
            "flash Please retry in 10.689924287s.",
            "RESOURCE_EXHAUSTED",
        ),
        "a page that shows the body",
        (CHAT,),
        scope=Scope.MODEL,
        retryable=False,
    ),
    Case(
        Kind.RATE_LIMIT,
        "Qwen",
        500,
        openai("Request failed with status code 429", "api_error", 500),
        "aptdnfapt/qwen-code-oai-proxy#14",
        (CHAT,),
    ),
    Case(Kind.RATE_LIMIT, "Mistral", 429, {"message": "Requests rate limit exceeded"}, "dnakov/anon-kode#53", (CHAT,)),
    Case(
        Kind.RATE_LIMIT,
        "Gemini",
        429,
        google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
        "continuedev/continue#10560",
        (CHAT,),
    ),
    Case(
        Kind.AUTH,
        "Anthropic",
        403,
        anthropic("permission_error", "Your API key does not have permission to use the specified resource."),
        "unchecked: SDK types; docs",
        (MESSAGES,),
    ),
)
