"""The words that all rooms speak: facts seen, reports made of them, measurements, and versions."""
