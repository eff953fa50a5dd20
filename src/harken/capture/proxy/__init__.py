"""The recording proxy: it passes on what programs say to their providers, and what they answer.

One idea: the two halves do not wait for each other. The server passes bytes and appends them to a
spool; another process reads the spool and makes sessions of it. So nothing that fails or is slow in
recording can be noticed by a client.

Source: docs/design/006-what-the-model-saw.md; docs/how-to/record-with-the-proxy.md.
"""
