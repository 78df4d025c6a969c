"""Measures kael and other engines side by side, for scripts/compare-peers."""
