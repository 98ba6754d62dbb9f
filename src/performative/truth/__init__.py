"""What only an observer of the world knows: the risk, the optimum, the stable point, and the metrics based on them."""
