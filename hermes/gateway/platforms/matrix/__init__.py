"""What Matrix needs beside its platform: values, calls, and what happens there."""
