"""The host of folder plug-ins: each runs as one child process in the sandbox and speaks JSON lines."""
