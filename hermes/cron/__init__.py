"""Scheduled jobs: schedules, due instants, and a scheduler that runs the jobs."""
