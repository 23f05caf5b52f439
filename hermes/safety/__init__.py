"""Pure analysis of what a command, path, URL or text would do. It does no I/O except through what is passed in."""
