"""Request and response bodies of model providers."""
