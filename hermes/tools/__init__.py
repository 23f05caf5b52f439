"""The Tool type, schemas from signatures, toolsets, the permission gate and the executor."""
