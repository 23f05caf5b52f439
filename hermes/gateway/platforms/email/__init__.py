"""What e-mail needs beside its platform: both protocols, letters as they come and as they go."""
