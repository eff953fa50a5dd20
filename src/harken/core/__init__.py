"""Values: ids, parts and messages, events, canonical bytes and hashes. No I/O, no clock."""
