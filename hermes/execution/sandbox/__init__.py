"""The sandbox: what a command may reach, and the mechanisms of the kernel that hold it."""
