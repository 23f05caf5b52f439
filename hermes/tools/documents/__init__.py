"""What the file tools show of documents and pictures."""
