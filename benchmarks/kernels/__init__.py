"""Time, memory and values of exact kernels beside GraKeL's, and random features beside them."""
