"""The gateway as a service of this machine: how it is installed, started, watched and ended."""
