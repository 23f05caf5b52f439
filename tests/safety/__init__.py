"""Tests of the analysis of commands and paths."""
