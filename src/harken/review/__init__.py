"""Reviews: reviewers file findings as tickets, discuss them, and verify that they are resolved."""
