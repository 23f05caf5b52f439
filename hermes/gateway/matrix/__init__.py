"""Matrix: its values, its calls, and what happens there as arrivals."""
