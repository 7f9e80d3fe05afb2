"""What responses may commit to: answers of every kind, their notations and their near misses."""
