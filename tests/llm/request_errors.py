"""Errors about servers and requests, as vendors really send them; see `vendor_errors.Case`."""

from hermes.core.outcomes import FailureKind as Kind
from tests.llm.vendor_errors import (
    BOTH,
    CHAT,
    MESSAGES,
    OPENAI,
    RESPONSES,
    Case,
    anthropic,
    google,
    minimax,
    openai,
    page,
    router,
)

TPM = "tokens per min (TPM): Limit 30000, Used 28802, Requested 2500. Please try again in 2.604s."
GROQ_TPM = "service tier `on_demand` on tokens per minute (TPM): Limit 12000,"
TOO_LARGE = (
    "Request too large for gpt-4o in organization org-V on tokens per min (TPM): Limit 30000, Requested 30601. The "
    "input or output tokens must be reduced in order to run successfully."
)
VLLM_LENGTH = (
    "This model's maximum context length is 131072 tokens. However, you requested 156632 tokens (152536 in the "
    "messages, 4096 in the completion). Please reduce the length of the messages or completion."
)
AZURE_POLICY = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify "
    "your prompt and retry."
)
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
IMAGE = "messages.0.content.2.image.source.base64: image exceeds 5 MB maximum: 15908784 bytes > 5242880 bytes"
TOOL_IMAGE = (
    "Invalid 'messages[3]'. Image URLs are only allowed for messages with role 'user', but this message with role "
    "'tool' contains an image URL."
)
SAMPLERS = "Failed to initialize samplers: failed to parse grammar"

REQUEST_ERRORS: tuple[Case, ...] = (
    Case(
        Kind.OVERLOADED, "Anthropic", 529, anthropic("overloaded_error", "Overloaded"), "unchecked: docs", (MESSAGES,)
    ),
    Case(
        Kind.OVERLOADED,
        "Kimi",
        429,
        {
            "error": {
                "message": "The engine is currently overloaded, please try again later",
                "type": "engine_overloaded_error",
            }
        },
        "MoonshotAI/kimi-code#2152",
        BOTH,
    ),
    Case(
        Kind.OVERLOADED,
        "llama.cpp",
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        "unchecked: server README",
    ),
    Case(
        Kind.OVERLOADED,
        "Mistral",
        429,
        {
            "object": "error",
            "message": "Service tier capacity exceeded for this model.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        "continuedev/continue#6185",
        (CHAT,),
    ),
    Case(
        Kind.OVERLOADED,
        "Ollama",
        503,
        {"error": "server busy, please try again.  maximum pending requests exceeded"},
        "unchecked: FAQ",
        (CHAT,),
    ),
    Case(
        Kind.SERVER_ERROR,
        "OpenAI",
        500,
        openai("The server had an error while processing your request. Sorry about that!", "server_error"),
        "unchecked: docs: error codes",
        OPENAI,
    ),
    Case(
        Kind.SERVER_ERROR,
        "Anthropic",
        500,
        anthropic("api_error", "Internal server error"),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.SERVER_ERROR,
        "MiniMax",
        200,
        minimax(1024, "internal error"),
        "unchecked: docs",
        (CHAT,),
        ways=("stream", "whole"),
    ),
    Case(
        Kind.SERVER_ERROR,
        "Cloudflare",
        520,
        page("520: Web server is returning an error", "cloudflare"),
        "unchecked: docs",
    ),
    Case(Kind.SERVER_ERROR, "a gateway", 502, page("502 Bad Gateway"), "unchecked: nginx"),
    Case(
        Kind.SERVER_ERROR,
        "OpenRouter",
        502,
        router("Provider returned error", 502, raw="error code: 502", provider_name="Chutes"),
        "unchecked: docs: errors",
    ),
    Case(Kind.TIMEOUT, "Anthropic", 504, anthropic("timeout_error", "Request timed out"), "SDK types", (MESSAGES,)),
    Case(
        Kind.TIMEOUT,
        "Gemini",
        504,
        google(504, "Deadline expired before operation could complete.", "DEADLINE_EXCEEDED"),
        "letta-ai/letta#2861",
        (CHAT,),
    ),
    Case(Kind.TIMEOUT, "a gateway", 504, page("504 Gateway Time-out"), "unchecked: nginx"),
    Case(
        Kind.TIMEOUT,
        "OpenRouter",
        408,
        {"error": {"message": "Request timed out", "code": 408}},
        "unchecked: docs: errors",
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "OpenAI",
        400,
        openai("Input tokens exceed the configured limit of 272000 tokens.", code="context_length_exceeded"),
        "unchecked: docs",
        OPENAI,
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "Anthropic",
        400,
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
        "ggml-org/llama.cpp#15780",
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "vLLM",
        400,
        {"object": "error", "message": VLLM_LENGTH, "type": "BadRequestError", "param": None, "code": 400},
        "meta-llama/llama-verifications#58",
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "LM Studio",
        400,
        {"error": "Trying to keep the first 14538 tokens when context the overflows."},
        "dyad-sh/dyad#925",
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "Qwen",
        400,
        openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
        "docs: error-code",
    ),
    Case(
        Kind.LONG_CONTEXT_TIER,
        "Anthropic",
        400,
        anthropic("invalid_request_error", "The long context beta is not yet available for this subscription."),
        "anthropics/claude-code#27944",
    ),
    Case(
        Kind.LONG_CONTEXT_TIER,
        "Anthropic",
        429,
        anthropic("rate_limit_error", "Extra usage is required for long context requests."),
        "anthropics/claude-code#50784; Wei-Shaw/sub2api#572",
    ),
    Case(
        Kind.PAYLOAD_TOO_LARGE,
        "Anthropic",
        413,
        anthropic("request_too_large", "Request exceeds the maximum size"),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.PAYLOAD_TOO_LARGE,
        "Groq",
        413,
        openai(
            f"Request too large for model `llama-3.3-70b-versatile` in organization `org_0` {GROQ_TPM} Requested "
            "14137, please reduce your message size and try again.",
            "tokens",
            "rate_limit_exceeded",
        ),
        "continuedev/continue#10218",
        OPENAI,
    ),
    Case(
        Kind.PAYLOAD_TOO_LARGE,
        "OpenAI",
        429,
        openai(TOO_LARGE, "tokens", "rate_limit_exceeded"),
        "DrShushen/climb#13",
        OPENAI,
    ),
    Case(
        Kind.PAYLOAD_TOO_LARGE,
        "a gateway",
        413,
        page("413 Request Entity Too Large"),
        "unchecked: nginx",
        ways=("http",),
    ),
    Case(
        Kind.IMAGE_TOO_LARGE,
        "Anthropic",
        400,
        anthropic("invalid_request_error", IMAGE),
        "anthropics/claude-code#10612",
        (MESSAGES,),
    ),
    Case(
        Kind.IMAGE_TOO_LARGE,
        "a gateway",
        400,
        {"error": {"code": "400", "type": "invalid_params", "message": IMAGE}},
        "daya0576/pi-imessage#5",
    ),
    Case(
        Kind.IMAGE_TOO_LARGE,
        "OpenAI",
        400,
        openai("The image is too large.", code="image_too_large"),
        "SDK types: ResponseError",
        (RESPONSES,),
    ),
    Case(
        Kind.CONTENT_POLICY,
        "Azure",
        400,
        openai(
            AZURE_POLICY,
            "",
            "content_filter",
            status=400,
            innererror={"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}},
        ),
        "compl-ai/compl-ai#20",
        OPENAI,
    ),
    Case(
        Kind.CONTENT_POLICY,
        "Qwen",
        400,
        openai("Input data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed"),
        "docs: error-code",
    ),
    Case(
        Kind.CONTENT_POLICY,
        "OpenRouter",
        403,
        router("Your chosen model requires moderation and your input was flagged", 403, reasons=["violence"]),
        "unchecked: docs: errors",
    ),
    Case(
        Kind.CONTENT_POLICY,
        "GLM",
        400,
        {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}},
        "unchecked: docs: error codes",
        BOTH,
    ),
    Case(Kind.CONTENT_POLICY, "OpenAI", 400, openai("Refused.", code="bio_policy"), "SDK types", (RESPONSES,)),
    Case(
        Kind.PROVIDER_POLICY,
        "OpenRouter",
        404,
        {
            "error": {
                "message": "No endpoints found matching your data policy (Paid model training). Configure: https://o.ai",
                "code": 404,
            }
        },
        "unoplat/unoplat-code-confluence#1080",
    ),
    Case(
        Kind.MODEL_NOT_FOUND,
        "OpenAI",
        404,
        openai("The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found"),
        "unchecked: docs",
        OPENAI,
    ),
    Case(
        Kind.MODEL_NOT_FOUND,
        "Anthropic",
        404,
        anthropic("not_found_error", "model: claude-9"),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.MODEL_NOT_FOUND,
        "Ollama",
        404,
        openai('model "llama9" not found, try pulling it first', "api_error"),
        "netease-youdao/QAnything#555",
        (CHAT,),
    ),
    Case(
        Kind.MODEL_NOT_FOUND,
        "GLM",
        400,
        {"error": {"code": "1211", "message": "模型不存在，请检查模型代码。"}},
        "unchecked: docs: error codes",
        BOTH,
    ),
    Case(
        Kind.MODEL_NOT_FOUND,
        "OpenRouter",
        400,
        {"error": {"message": "x/y is not a valid model ID", "code": 400}},
        "unchecked: docs: errors",
    ),
    Case(
        Kind.THINKING_SIGNATURE,
        "Anthropic",
        400,
        anthropic("invalid_request_error", SIGNATURE),
        "anthropics/claude-code#10627",
        (MESSAGES,),
    ),
    Case(
        Kind.THINKING_SIGNATURE,
        "a gateway",
        400,
        {
            "error": {
                "code": 400,
                "message": '{"type":"error","error":{"type":"invalid_request_error","message":"' + SIGNATURE + '"}}',
                "status": "INVALID_ARGUMENT",
            }
        },
        "lbjlaq/Antigravity-Manager#498",
    ),
    Case(
        Kind.ENCRYPTED_CONTENT,
        "OpenAI",
        400,
        openai("The encrypted content gAAA...DQ== could not be verified.", code="invalid_encrypted_content"),
        "openai/codex#8145",
        (RESPONSES,),
    ),
    Case(
        Kind.ENCRYPTED_CONTENT,
        "OpenCode",
        400,
        openai(
            "Upstream request failed: [invalid_request_error] reasoning `encrypted_content` was not issued to this "
            "caller"
        ),
        "anomalyco/opencode#48773",
    ),
    Case(Kind.TOOL_CONTENT, "OpenAI", 400, openai(TOOL_IMAGE, code="invalid_value"), "dreadnode/rigging#41", OPENAI),
    Case(
        Kind.TOOL_CONTENT,
        "DeepSeek",
        400,
        openai(".messages[565].image[0]: You have uploaded an unsupported image. Please make sure your image is valid"),
        "NousResearch/hermes-agent#109707",
        BOTH,
    ),
    Case(
        Kind.TOOL_CONTENT,
        "llama.cpp",
        500,
        {
            "error": {
                "code": 500,
                "message": "image input is not supported - hint: if this is unexpected, you may need the mmproj",
                "type": "server_error",
            }
        },
        "unchecked: server sources",
    ),
    Case(
        Kind.IMAGES_UNSUPPORTED,
        "DeepSeek",
        400,
        openai(
            "Failed to deserialize the JSON body into the target type: messages[7]: unknown variant `image_url`, "
            "expected `text` at line 1 column 114708",
            code="invalid_request_error",
        ),
        "1jehuang/jcode#310",
    ),
    Case(
        Kind.IMAGES_UNSUPPORTED,
        "OpenRouter",
        404,
        {"error": {"message": "No endpoints found that support image input", "code": 404}},
        "aaif-goose/goose#5396",
    ),
    Case(
        Kind.IMAGES_UNSUPPORTED,
        "Ollama",
        500,
        {"error": {"message": "this model is missing data required for image input", "type": "api_error"}},
        "unchecked: server sources",
    ),
    Case(
        Kind.GRAMMAR,
        "llama.cpp",
        400,
        {"error": {"code": 400, "message": SAMPLERS, "type": "invalid_request_error"}},
        "ggml-org/llama.cpp#25895",
    ),
    Case(
        Kind.STREAMING,
        "OpenAI",
        400,
        openai(
            "Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings",
            code="unsupported_value",
            param="stream",
        ),
        "openai/openai-python#2375",
    ),
    Case(
        Kind.STREAMING,
        "a server of one's own",
        400,
        openai("Streaming is not supported by this model."),
        "unchecked: words of several servers",
    ),
    Case(
        Kind.STREAMING,
        "an inference gateway",
        422,
        {"detail": "stream must be false: this endpoint does not support streaming"},
        "unchecked: words of several servers",
    ),
    Case(
        Kind.FORMAT_ERROR,
        "Mistral",
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "max_completion_tokens"],
                        "msg": "Extra inputs are not permitted",
                        "input": 32000,
                    }
                ]
            },
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        "editor-code-assistant/eca#231",
        (CHAT,),
    ),
    Case(
        Kind.FORMAT_ERROR,
        "Anthropic",
        400,
        anthropic("invalid_request_error", "messages.1.content: Field required"),
        "unchecked: docs",
        (MESSAGES,),
    ),
    Case(
        Kind.FORMAT_ERROR,
        "DeepSeek",
        400,
        openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", code="invalid_request_error"),
        "Backtthefuture/chatlogwebUI#7",
        BOTH,
    ),
    Case(
        Kind.FORMAT_ERROR,
        "Fireworks",
        400,
        {"error": {"type": "invalid_request_error", "message": "JSON Schema not supported"}, "type": "error"},
        "earendil-works/pi#5352",
    ),
    Case(
        Kind.FORMAT_ERROR,
        "Groq",
        400,
        openai("Failed to call a function. Please adjust your prompt.", code="tool_use_failed", failed_generation="<f"),
        "unchecked: docs: errors",
        OPENAI,
        retryable=True,
    ),
    Case(
        Kind.FORMAT_ERROR,
        "Ollama",
        400,
        openai("registry.ollama.ai/library/deepseek-r1:latest does not support tools", "api_error"),
        "heshengtao/super-agent-party#142",
        (CHAT,),
        ways=("http",),
    ),
    Case(Kind.BAD_RESPONSE, "a gateway", 200, page("Sign in"), "a captive portal", retryable=False, ways=("whole",)),
    Case(Kind.UNKNOWN, "a gateway", 200, {"error": {"message": "something odd"}}, "made", ways=("stream", "whole")),
    Case(
        Kind.MODEL_NOT_FOUND,
        "OpenAI",
        403,
        openai("Project `proj_x` does not have access to model `gpt-9`", code="model_not_found"),
        "unchecked: docs",
        OPENAI,
    ),
    Case(
        Kind.OVERLOADED,
        "GLM",
        429,
        {"error": {"code": "1305", "message": "该模型当前访问量过大，请您稍后再试"}},
        "unchecked: docs: error codes",
        BOTH,
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "llama.cpp",
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 1407,
                "n_ctx": 256,
            }
        },
        "ggml-org/llama.cpp#15780",
    ),
    Case(
        Kind.CONTEXT_OVERFLOW,
        "llama.cpp",
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "server_error",
            }
        },
        "gpustack/gpustack#852",
    ),
    Case(
        Kind.GRAMMAR,
        "llama.cpp",
        400,
        openai(
            "Unable to generate parser for this template. Automatic parser generation failed: JSON schema conversion "
            "failed:\nPattern must start with '^' and end with '$'"
        ),
        "openclaw/openclaw#107430",
    ),
    Case(
        Kind.PROVIDER_POLICY,
        "TrueFoundry",
        404,
        openai(
            "openrouter error: No endpoints available matching your guardrail restrictions and data policy.", "APIError"
        ),
        "truefoundry/models#826",
        (CHAT,),
    ),
    Case(
        Kind.CONTENT_POLICY,
        "xAI",
        403,
        {"code": "The caller does not have permission", "error": "Content violates usage guidelines."},
        "unchecked: docs",
        OPENAI,
    ),
    Case(
        Kind.OVERLOADED,
        "Anthropic",
        500,
        anthropic("api_error", "Overloaded"),
        "unchecked: docs",
        (MESSAGES,),
    ),
)
