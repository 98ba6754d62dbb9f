"""Methods: what to deploy next, from nothing but what was deployed and observed. One file for each, or for a family."""
