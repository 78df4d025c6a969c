"""A module for each engine that reads files of its own; see peers.interface."""
