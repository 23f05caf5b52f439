"""Where commands run: one file a place, behind one contract."""
