"""What programs outside are sent, as models and as the JSON Schemas made from them, which ship beside them."""
