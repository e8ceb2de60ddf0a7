"""The seam to the web: HTTP requests for clients, made in one thread with a loop of its own. No actor is in it.

request          what goes out for a request, and where a redirect leads; pure
content_coding   gzip and zstd bodies, decoded within bounds; pure
client           hands requests to the thread, and what comes of them back
exchange         a request to make, and what is told of its response
requests         the requests themselves, on aiohttp; only the thread imports it
"""
