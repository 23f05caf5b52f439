"""The number of model calls that a turn may make."""


class TurnBudget:
    """Counts down from `total`; once spent it stays spent until a call is refunded."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    @property
    def remaining(self) -> int:
        """The calls that are left."""
        return max(self.total - self.used, 0)

    def take_step(self) -> bool:
        """Use one call; return False when none is left."""
        if self.used >= self.total:
            return False
        self.used += 1
        return True

    def refund_step(self) -> None:
        """Refund one call: a batch of calls that only ran code costs nothing."""
        self.used = max(self.used - 1, 0)
