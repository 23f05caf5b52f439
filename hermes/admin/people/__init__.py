"""Who may talk with Hermes, and as what."""
