"""Programs that try a whole server: scripts/measure-cancellation, measure-serving, stress-server and
fuzz-server."""
