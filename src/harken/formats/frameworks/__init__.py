"""The conversations of agent frameworks that keep their own items in Harken's store."""
