"""The browser as a program of the machine: which one, its box, its kept profile."""
