"""`--usage-file`: what a run cost, as JSON, written even when the run failed."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.cli.errors import complain

_KEYS = (
    "model", "provider", "session_id", "turn_exit_reason", "completed", "api_calls", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "prompt_tokens", "completion_tokens", "total_tokens",
    "cache_hit_rate", "cache_saved_usd",
    "estimated_cost_usd", "cost_status", "cost_source",
)  # fmt: skip


def write_usage(file: Path, result: Mapping[str, object]) -> None:
    """Write the file; one that cannot be written is complained about and does not change the run's outcome."""
    try:
        file.write_bytes(msgspec.json.format(msgspec.json.encode({key: result[key] for key in _KEYS})) + b"\n")
    except OSError as error:
        complain(f"{file} cannot be written: {error.strerror}.")
