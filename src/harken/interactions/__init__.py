"""The interaction log: what each model call saw, for any program; and out to others."""
