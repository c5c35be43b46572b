"""Ways to carry whole messages between two parties.

One module per medium (`websocket`, `unix`, `stdio`, `memory`), all behind the
two roles in `link`. A transport moves opaque bytes in order, bounds what it
buffers and warns its owner when the other side is too slow. It knows nothing of
JSON-RPC, of sessions or of who may connect beyond what the medium itself shows.

This package imports nothing on purpose: the dependencies of `websocket` are the most
expensive import of the server, and the other media must not pay for them.
"""
