"""The server of the viewer: a page in the browser, and the routes that it reads."""
