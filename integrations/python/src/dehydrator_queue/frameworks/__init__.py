"""What the brokers for several frameworks have in common."""
