"""Parts of the fold of events: discussions and triggers."""
