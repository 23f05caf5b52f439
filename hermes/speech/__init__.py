"""Speech to text and text to speech: engines as records, sound formats, and what of an answer is spoken."""
