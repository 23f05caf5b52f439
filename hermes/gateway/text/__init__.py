"""What an answer's markdown becomes on the way to a chat: pieces, dialects, files; nothing fetches by itself."""
