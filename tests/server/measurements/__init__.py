"""Programs that measure a whole server: scripts/measure-cancellation, scripts/stress-server."""
