"""Hooks: code of the person's or of a plug-in that is called at named moments of a session."""
