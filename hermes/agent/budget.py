"""How many model calls a turn may make."""


class Budget:
    """Counts down from `total`; one that is spent stays spent until a call is given back."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    @property
    def remaining(self) -> int:
        """Calls that are left."""
        return max(self.total - self.used, 0)

    def take(self) -> bool:
        """Use one call; False when none is left."""
        if self.used >= self.total:
            return False
        self.used += 1
        return True

    def refund(self) -> None:
        """Give one call back: a batch of calls that only ran code costs nothing (row ML-03)."""
        self.used = max(self.used - 1, 0)
