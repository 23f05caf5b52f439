"""Jobs on a clock: schedules, what is due, and a scheduler that lets it run."""
