"""The engines that run code which calls tools: an interpreter whose state can be stored, and Python itself."""
