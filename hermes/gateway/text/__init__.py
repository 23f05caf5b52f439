"""What an answer's markdown becomes on the way to a chat: pieces, dialects, files, and nothing that fetches by itself."""
