"""Test doubles that speak the real protocols, shipped so that plug-ins can be tested like Hermes itself."""

from hermes.util.renamed import answer_renamed_modules

answer_renamed_modules()
