"""Methods against worlds, many realizations at once."""
