"""Webhooks: how a report is proved, and what is made of it."""
