"""A module for each engine; see peers.interface."""
