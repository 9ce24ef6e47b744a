"""What other programs receive, as models, and as the JSON Schemas made from them, which lie beside them."""
