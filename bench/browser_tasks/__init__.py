"""Twenty tasks on sites of our own, done by Hermes' browser and by two other programs."""
