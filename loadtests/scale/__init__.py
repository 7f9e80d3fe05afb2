"""How far a deployment scales: on sixteen Ray nodes of one machine, and on a virtual clock."""
