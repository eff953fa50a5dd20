"""What is done to every response: security headers, compression."""
