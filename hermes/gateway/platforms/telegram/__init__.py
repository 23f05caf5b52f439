"""The Telegram platform: its Bot API client, its updates and its webhook server."""
