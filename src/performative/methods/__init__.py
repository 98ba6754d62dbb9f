"""Methods: what to deploy next, given only what was deployed and observed. One file for each, or for a family of them."""
