"""From a batch to the replicas of a reward model, and back."""
