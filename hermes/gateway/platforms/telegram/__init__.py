"""What the Telegram platform is made of: its calls, and what its updates mean."""
