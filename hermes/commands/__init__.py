"""Commands that every front-end shares: what one is, how it is found, what it shows."""
