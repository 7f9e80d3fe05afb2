"""Each module injects one kind of fault; ``run`` yields the figures of the chosen scenarios."""
