"""Fakes of chat platforms: servers on loopback that speak the platforms' own wires."""
