"""Commands of a team: users, tokens, retention rules."""
