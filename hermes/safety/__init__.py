"""Pure analysis of what a command, path, URL or text would do. No I/O except what is handed in."""
