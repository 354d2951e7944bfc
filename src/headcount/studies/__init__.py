"""Published studies, run again: one module or small package for each paper."""
