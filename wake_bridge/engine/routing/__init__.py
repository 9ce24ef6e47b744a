"""How things stand on each route of an identity, and how a route that failed comes back."""
