"""Tests of TopDown."""
