"""Record model calls with a proxy between programs and their providers.

The two halves do not wait for each other. The server passes bytes on and appends them to a spool.
Another process reads the spool and writes sessions. So an error or a delay in recording does not
affect a client.

Source: docs/design/006-what-the-model-saw.md; docs/how-to/record-with-the-proxy.md.
"""
