"""One way of breaking the service each; ``run`` gives the figures of those it is asked for."""
