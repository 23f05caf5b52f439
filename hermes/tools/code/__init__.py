"""Code that calls tools: how its calls are made, its engines, and what is stored of a run."""
