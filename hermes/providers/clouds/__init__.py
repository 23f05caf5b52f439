"""Clouds: where their models are, and how requests to them are signed. One module each, loaded when it is used."""
