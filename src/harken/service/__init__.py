"""The service: commits and the store behind them, over HTTP on this machine; needs `[service]`."""
