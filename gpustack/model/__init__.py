"""The types that all rooms share: facts about machines, reports on them, measurements, and versions."""
