"""Time, memory and values of the exact kernels beside GraKeL, and random features beside them."""
