"""The full-screen chat: an input line that stays at the bottom, everything else in the terminal's own scrollback."""
