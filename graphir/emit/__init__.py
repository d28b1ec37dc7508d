"""From a module after fusion and scheduling to a program of the virtual machine."""
