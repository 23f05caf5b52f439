"""Test doubles that speak the real protocols, shipped so that plug-ins can be tested like Hermes itself."""
