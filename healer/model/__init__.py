"""What the words mean: frozen values without I/O, clock or randomness.

Everything above imports these; they import only each other.
"""
