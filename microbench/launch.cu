// A kernel that does nothing, and one block of one thread at that: what is left is the launch. Where it is given a
// counter it counts itself, without an atomic operation: launches that depend on one another never meet.
extern "C" __global__ void nothing(unsigned int *count) {
    if (count) *count += 1;
}
