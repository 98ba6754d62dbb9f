"""Numbers and programs, nothing of the field: float64, pytrees, random numbers, polynomials, averages, lanes."""
