"""Names of settings that other agents of the same family use."""

# fmt: off
KNOWN_ELSEWHERE = frozenset(
    {
        "model", "providers", "fallback_providers", "credential_pool_strategies", "toolsets",
        "max_concurrent_sessions", "max_live_sessions", "agent", "terminal", "web", "browser", "checkpoints",
        "context_file_max_chars", "file_read_max_chars", "mcp_discovery_timeout", "mcp", "tool_output",
        "tool_loop_guardrails", "compression", "kanban", "prompt_caching", "openrouter", "bedrock", "auxiliary",
        "display", "dashboard", "privacy", "tts", "stt", "voice", "human_delay", "context", "memory", "delegation",
        "prefill_messages_file", "goals", "moa", "skills", "curator", "honcho", "timezone", "slack", "discord",
        "whatsapp", "telegram", "mattermost", "matrix", "approvals", "command_allowlist", "quick_commands",
        "platform_hints", "hooks", "hooks_auto_accept", "personalities", "security", "cron", "code_execution",
        "tools", "logging", "model_catalog", "network", "gateway", "streaming", "sessions", "onboarding", "updates",
        "lsp", "x_search", "secrets", "paste_collapse_threshold", "paste_collapse_threshold_fallback",
        "paste_collapse_char_threshold", "computer_use", "desktop", "vertex", "_config_version", "custom_providers",
        "fallback_model", "mcp_servers", "platforms", "plugins", "platform_toolsets", "session_reset",
        "reset_triggers", "group_sessions_per_user", "thread_sessions_per_user", "multiplex_profiles",
        "profile_routes", "unauthorized_dm_behavior", "image_gen", "video_gen", "smart_model_routing",
        "always_log_local", "filter_silence_narration", "stt_echo_transcripts", "require_mention", "signal",
        "known_plugin_toolsets", "spending", "prices",
    }
)
# fmt: on
"""Top-level keys that guides for such agents mention; those that this version does not act on are not
mistakes.
"""
