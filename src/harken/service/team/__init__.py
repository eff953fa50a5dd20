"""The users of a service: their requests, rights and audit records."""
