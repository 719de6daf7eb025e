"""How fast the library is beside what else a user might take: ``softmargin bench``."""
