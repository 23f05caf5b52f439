"""What a prompt, a tool round and a start cost, in turn with the programs people use today."""
