"""Reports of studies: one module for each."""
