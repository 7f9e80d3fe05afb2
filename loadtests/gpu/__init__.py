"""The first run on a GPU: what is sent to the machine, and its two commands, check and bench."""
