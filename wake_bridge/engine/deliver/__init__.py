"""One delivery from its window to its proof: guards, gate, attempt, acknowledgement."""
