"""Other people's code in sessions: hooks and plug-ins."""
