"""What a session gets from an editor, and shows to one."""
