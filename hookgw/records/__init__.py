"""Records and rules without I/O. Every other layer may import them; they import no other layer."""
