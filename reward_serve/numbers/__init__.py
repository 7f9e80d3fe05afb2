"""Reading numbers in any notation: parsed exactly, found anywhere, written in plain digits."""
