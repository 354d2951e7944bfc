"""Papers on disclosure avoidance, run again with headcount: one package for each."""
