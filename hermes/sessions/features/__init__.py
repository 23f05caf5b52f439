"""What a session gets from features that outlive it: memory, skills, jobs, reviews, titles."""
