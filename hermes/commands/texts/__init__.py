"""What commands and chats say about events, tools and sub-agents."""
