"""The gateway: one process that answers on every platform."""
