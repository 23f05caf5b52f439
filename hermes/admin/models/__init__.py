"""Models: choosing one, trying it, keeping the choice, changing it in a running session."""
