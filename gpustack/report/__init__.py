"""How a report looks: text for people, JSON and other formats for machines."""
