"""Write what a run cost as JSON (`--usage-file`), also when the run failed."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.cli.errors import print_error

_USAGE_KEYS = (
    "model", "provider", "session_id", "turn_exit_reason", "completed", "api_calls", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "prompt_tokens", "completion_tokens", "total_tokens",
    "cache_hit_rate", "cache_saved_usd",
    "estimated_cost_usd", "cost_status", "cost_source",
)  # fmt: skip


def write_usage_file(file: Path, result: Mapping[str, object]) -> None:
    """Write the file. When it cannot be written an error is printed, and the run's outcome stays the same."""
    try:
        file.write_bytes(msgspec.json.format(msgspec.json.encode({key: result[key] for key in _USAGE_KEYS})) + b"\n")
    except OSError as error:
        print_error(f"{file} cannot be written: {error.strerror}.")
