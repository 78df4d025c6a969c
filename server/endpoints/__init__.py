"""What can be asked for, one module for each path or family of paths."""
