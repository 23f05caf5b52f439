"""From the settings to what limits a turn."""

from hermes.agent.guard import GuardCounts, GuardLimits
from hermes.config.settings import GuardNumbers, GuardSettings


def guard_limits(settings: GuardSettings) -> GuardLimits:
    """When a turn that goes round in circles is warned and ended."""
    return GuardLimits(
        warn=_counts(settings.warn_after) if settings.warnings_enabled else GuardCounts(),
        stop=_counts(settings.hard_stop_after) if settings.hard_stop_enabled else GuardCounts(),
    )


def _counts(numbers: GuardNumbers) -> GuardCounts:
    return GuardCounts(numbers.exact_failure, numbers.same_tool_failure, numbers.idempotent_no_progress)
