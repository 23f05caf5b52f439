"""The program that reads one file in its box. It imports the standard library, what parses, and nothing of Hermes but
itself and the reader of HTML.
"""
