"""Who talks in a chat, and what they may do and use."""
