"""Recording of calls that go through a provider's SDK."""
