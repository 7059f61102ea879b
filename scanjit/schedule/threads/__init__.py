"""How threads share the work."""
