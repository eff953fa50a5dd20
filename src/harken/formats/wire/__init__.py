"""Requests and answers as they are on the wire, of four protocols, and of any other client."""
