"""Commands on another host over OpenSSH, and the workspace on both sides."""
