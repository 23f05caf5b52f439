"""The webhook platform: its server, the verification of reports and the filling of prompt templates."""
