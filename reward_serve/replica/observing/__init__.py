"""What a replica tells of its requests: metrics, failures, a sample of its verdicts."""
