"""A store far away: what goes over the wire, and the client of the service that answers."""
