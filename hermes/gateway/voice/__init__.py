"""Voice messages of chats: what comes in is written down, what goes out is spoken where people asked for it."""
