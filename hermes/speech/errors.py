"""What goes wrong with speech, in words for the person and the model."""

from hermes.core.errors import HermesError


class SpeechError(HermesError):
    """Something could not be heard or spoken. `retryable` says that the same may work a moment later."""

    def __init__(self, message: str, hint: str = "", *, retryable: bool = False, wait: float | None = None) -> None:
        super().__init__(message, hint)
        self.retryable = retryable
        self.wait = wait


class NoEngineError(SpeechError):
    """Nothing is set up that could do it; the hint is the one line that changes this."""
