"""Numbers about the world, each with its source and date; nothing here decides anything."""
