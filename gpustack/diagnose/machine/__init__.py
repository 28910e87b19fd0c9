"""The machine in the terms of requirements and rules: typed facts."""
