"""Sub-agents as people in chats see them."""
