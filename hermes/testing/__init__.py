"""Fakes that speak the real wire, shipped so that plug-ins can be tested like Hermes itself."""
