"""The server side of the Model Context Protocol: what is offered, and the answers of each revision. No transport."""
