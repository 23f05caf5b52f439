"""Conversion of an answer's markdown for chats: pieces, dialects, files; nothing in it is fetched by being shown."""
