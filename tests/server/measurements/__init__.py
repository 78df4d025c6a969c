"""Programs that measure a whole server: scripts/measure-cancellation, measure-serving and stress-server."""
