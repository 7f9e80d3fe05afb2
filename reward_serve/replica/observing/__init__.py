"""A replica's observability: metrics, a log of failures, a log of sampled verdicts."""
