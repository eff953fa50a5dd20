"""Teams on one service: users, tokens, rights, retention and audit.

Source: docs/design/023-teams.md.
"""
