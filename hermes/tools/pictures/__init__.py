"""Pictures as tools take and make them: where they come from, and who makes them."""
