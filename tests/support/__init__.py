"""What tests and benchmarks share: problems with known answers, oracles, people and files."""
