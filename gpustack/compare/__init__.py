"""What changed between two machines or two times."""
