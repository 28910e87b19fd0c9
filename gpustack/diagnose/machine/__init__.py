"""What the machine is, in the terms of requirements and rules: facts read by type."""
