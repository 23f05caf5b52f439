"""The e-mail platform: connections to mail servers, and the reading and writing of mails."""
