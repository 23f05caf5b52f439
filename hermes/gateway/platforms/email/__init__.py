"""IMAP, SMTP, and the reading and writing of mails for the e-mail platform."""
