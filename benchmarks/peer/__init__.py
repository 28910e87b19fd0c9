"""The pieces of ``benchmarks/peers.py``: what the peers print, how they are run, and what is compared with what."""
