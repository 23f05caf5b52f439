"""The built-in context engine: it decides when a conversation is too full. The work itself is loaded when it is due."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.config.settings import CompressionSettings
from hermes.context.engine import (
    ASSUMED_WINDOW,
    Compaction,
    CompactionPreview,
    CompactionRequest,
    ContextLoad,
    EngineSetup,
    NoCompaction,
)
from hermes.llm.exchange import Emit
from hermes.tools.tool import Tool

if TYPE_CHECKING:
    from hermes.context.compaction import Condenser


class LoadEstimate:
    """Estimates how full the window is, and how full it may be, in tokens corrected by the provider's counts."""

    def __init__(self, settings: CompressionSettings) -> None:
        self._settings = settings
        self._ratio = 1.0
        """Tokens for each estimated one, by the last count."""

    def learn_count(self, counted: int, estimated: int) -> None:
        """Learn how the estimate compares with a provider's count."""
        if counted > 0 and estimated > 0:
            self._ratio = min(max(counted / estimated, 0.25), 4.0)

    def estimate_load(self, load: ContextLoad) -> int:
        """Return the tokens of a load, by the provider's count or else by the corrected estimate."""
        return load.counted if load.counted is not None else int(load.estimated * self._ratio)

    def compute_threshold(self, load: ContextLoad) -> int:
        """Return the number of tokens from which on a conversation is condensed.

        Where the prompt and the tools alone take most of it, the threshold applies to what they leave of the window.
        """
        window = load.window or ASSUMED_WINDOW
        plain = int(self._settings.threshold * window)
        frame = int(load.frame * self._ratio)
        if 2 * frame <= plain:
            return plain
        return frame + int(self._settings.threshold * max(0, window - frame))


class Compressor:
    """Clears old results, then condenses the middle. `docs/compression.md` describes it."""

    name = "compressor"

    def __init__(self, setup: EngineSetup) -> None:
        self._setup = setup
        self._estimate = LoadEstimate(setup.settings)
        self._condenser: Condenser | None = None

    def on_usage(self, counted: int, estimated: int) -> None:
        """Learn how the estimate compares with a provider's count."""
        self._estimate.learn_count(counted, estimated)

    def should_compress(self, load: ContextLoad) -> bool:
        """Return whether the threshold is passed, by the provider's count or else by the corrected estimate."""
        return load.window is not None and self._estimate.estimate_load(load) >= self._estimate.compute_threshold(load)

    def tools(self) -> Sequence[Tool]:
        """Return no tools: condensed messages are found by `session_search`."""
        return ()

    async def compress(self, occasion: CompactionRequest, emit: Emit) -> Compaction | NoCompaction:
        """Clear old results if that is enough, else condense the middle."""
        return await self._open_condenser().compress(occasion, emit)

    async def preview(self, occasion: CompactionRequest) -> CompactionPreview | NoCompaction:
        """Return what `compress` would change."""
        return await self._open_condenser().preview(occasion)

    def _open_condenser(self) -> "Condenser":
        if self._condenser is None:
            from hermes.context.compaction import Condenser

            self._condenser = Condenser(self._setup, self._estimate.estimate_load, self._estimate.compute_threshold)
        return self._condenser


def engine(setup: EngineSetup) -> Compressor:
    """Return the engine for one session."""
    return Compressor(setup)
