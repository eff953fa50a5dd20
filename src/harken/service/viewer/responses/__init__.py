"""The middleware of all responses: security headers, compression."""
