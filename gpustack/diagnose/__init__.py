"""From facts to a report: rules, requirements, causes and the verdict."""
