"""Several processes behind one address: who starts them, what they are told, and how connections reach them."""
