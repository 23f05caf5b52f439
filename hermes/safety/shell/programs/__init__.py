"""What is known of programs, domain by domain."""
